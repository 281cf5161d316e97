"""A diversity bonus measured on texts or descriptors, kept on a short leash.

The set utility already rewards diversity where it pays. A bonus on what answers look like can keep
exploration alive where it does not pay yet, and is easily gamed: so it is centred in the group,
never outweighs the advantage it is added to, and goes only to rollouts that are good enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from vpo.sets import Bools, Floats, Ints

Combine = Literal["add", "multiply"]


@dataclass(frozen=True)
class Bonus:
    """A novelty for each rollout and how it enters.

    Attributes:
        novelty: (n,) how different each rollout is from the others of its group, in [0, 1].
        combine: ``"add"``: advantage + weight * standardised novelty. ``"multiply"``: the worth
            times 1 - weight (1 - novelty), before the group is compared; weight 1 and scale
            ``"none"`` are DARLING (arXiv 2509.02534).
        weight: Size of the bonus, at least 0; at most 1 for ``"multiply"``.
        eligible: (n,) True where the rollout is good enough; None for all. The others keep their
            advantage (add), or count as not novel at all (multiply).
        cap: ``"add"`` changes no advantage by more than this share of it, so that a bonus never
            turns a sign when cap is below 1, and a group without signal stays at 0.
    """

    novelty: npt.ArrayLike
    combine: Combine = "add"
    weight: float = 0.1
    eligible: npt.ArrayLike | None = None
    cap: float = 0.5

    def __post_init__(self) -> None:
        if self.combine not in get_args(Combine):
            raise ValueError(f"bonus: combine is {self.combine!r}, allowed: 'add', 'multiply'")
        highest = 1.0 if self.combine == "multiply" else np.inf
        if not 0.0 <= self.weight <= highest or not np.isfinite(self.weight):
            raise ValueError(f"bonus: weight is {self.weight}, allowed: 0 to {highest:g}")
        novelty = np.asarray(self.novelty, dtype=np.float64)
        if not ((novelty >= 0.0) & (novelty <= 1.0)).all():
            raise ValueError("bonus: novelty must lie in [0, 1]")

    def arrays(self, n: int) -> tuple[Floats, Bools]:
        """Return novelty and eligibility of n rollouts.

        Raises:
            ValueError: If their number is not n.
        """
        novelty = np.asarray(self.novelty, dtype=np.float64)
        allowed = np.ones(n, bool) if self.eligible is None else np.asarray(self.eligible, bool)
        if novelty.shape != (n,) or allowed.shape != (n,):
            raise ValueError(f"bonus: {novelty.shape}, {allowed.shape}, one each for {n} rollouts")
        return novelty, allowed

    def factors(self, n: int) -> Floats:
        """Return the (n,) factors of the worths."""
        if self.combine == "add":
            return np.ones(n)
        novelty, allowed = self.arrays(n)
        return 1.0 - self.weight * (1.0 - np.where(allowed, novelty, 0.0))

    def added_to(self, relative: Floats, members: Sequence[Ints]) -> Floats:
        """Return (n, c) advantages with the bonus.

        Args:
            relative: (n, c) advantages.
            members: (g, s) arrays of the groups' members.
        """
        if self.combine == "multiply":
            return relative
        novelty, allowed = self.arrays(len(relative))
        extra = np.zeros(len(relative))
        for index in members:
            inside = allowed[index]
            count = np.maximum(inside.sum(axis=1, keepdims=True), 1)
            mean = (novelty[index] * inside).sum(axis=1, keepdims=True) / count
            off = (novelty[index] - mean) * inside
            std = np.sqrt((off**2).sum(axis=1, keepdims=True) / count)
            extra[index] = np.divide(off, std, out=np.zeros_like(off), where=std > 1e-6)
        leash = self.cap * np.abs(relative)
        return relative + np.clip(self.weight * extra[:, None], -leash, leash)


def text_novelty(
    texts: Sequence[str], group_ids: Sequence[int] | npt.NDArray[Any], *, length: int = 4
) -> Floats:
    """Return the mean Jaccard distance of each text from the others of its group, in [0, 1].

    Args:
        texts: n texts.
        group_ids: (n,) ids; a text alone in its group gets 0.
        length: Characters in the overlapping pieces that are compared.
    """
    pieces = [
        frozenset(t[i : i + length] for i in range(max(1, len(t) - length + 1))) for t in texts
    ]

    def distance(index: Ints) -> Floats:
        sets = [pieces[i] for i in index]
        return np.array([[1.0 - len(a & b) / len(a | b) for b in sets] for a in sets])

    return _mean_distance(distance, group_ids, len(texts))


def descriptor_novelty(
    descriptors: npt.ArrayLike, group_ids: Sequence[int] | npt.NDArray[Any]
) -> Floats:
    """Return the mean Euclidean distance from the others of the group over the largest possible.

    Args:
        descriptors: (n, d) behaviour descriptors, each scaled to [0, 1].
        group_ids: (n,) ids; a rollout alone in its group gets 0.

    Raises:
        ValueError: If a descriptor lies outside [0, 1].
    """
    points = np.asarray(descriptors, dtype=np.float64)
    if points.ndim != 2 or not ((points >= 0.0) & (points <= 1.0)).all():
        raise ValueError(f"descriptors: shape {points.shape}; (n, d) values in [0, 1] are needed")

    def distance(index: Ints) -> Floats:
        group = points[index]
        apart: Floats = np.linalg.norm(group[:, None] - group, axis=2) / np.sqrt(points.shape[1])
        return apart

    return _mean_distance(distance, group_ids, len(points))


def _mean_distance(distance: Any, group_ids: Sequence[int] | npt.NDArray[Any], n: int) -> Floats:
    ids = np.asarray(group_ids)
    if ids.shape != (n,):
        raise ValueError(f"group_ids: shape {ids.shape}, one id for each of {n} is needed")
    novelty = np.zeros(n)
    for group in np.unique(ids):
        index = np.flatnonzero(ids == group)
        if len(index) > 1:
            novelty[index] = distance(index).sum(axis=1) / (len(index) - 1)
    return novelty
