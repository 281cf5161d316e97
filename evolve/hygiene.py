"""Whether a reward vector is worth being a vector: what its dimensions say about each other.

A set of answers can only specialise where the dimensions pull apart. Where they move as one, or
one never moves at all, learning on the vector is learning on its mean with more noise; better to be
told before the run than after it.

Covered: dependence in pairs over a sample of programs. Not covered: whether the dimensions are the
right ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Above this correlation two dimensions are told as one.
COLLINEAR = 0.95
#: Below this many dimensions a vector is as good as its mean.
LOW_RANK = 1.3
#: A dimension is saturated where this share of the programs sits at one end of the range.
SATURATED = 0.9
#: Programs with distinct rewards below which nothing is concluded.
FEWEST = 8


@dataclass(frozen=True)
class Hygiene:
    """What a sample of reward vectors shows.

    Attributes:
        programs: Number of programs in the sample.
        distinct: Number of distinct reward vectors among them.
        correlation: (k, k) rank correlation (Spearman) over the distinct vectors; 0 where a
            dimension is constant, 1 on the diagonal.
        effective_rank: Number of independent dimensions, between 0 (all constant) and k.
        constant: Names of the dimensions that never moved.
        saturated: Name -> share of the programs at the bottom (negative) or the top (positive) of
            the range, for the dimensions where that is most of them.
        collinear: Pairs of names that move as one, with their correlation.
    """

    programs: int
    distinct: int
    correlation: Array
    effective_rank: float
    constant: tuple[str, ...]
    saturated: dict[str, float]
    collinear: tuple[tuple[str, str, float], ...]


def effective_rank(correlation: Array) -> float:
    """Return exp of the entropy of the eigenvalues of a correlation matrix, 0 for an empty one.

    Source: O. Roy and M. Vetterli, "The effective rank", EUSIPCO 2007, with eigenvalues for
    singular values.

    Args:
        correlation: (k, k), symmetric and positive semidefinite.
    """
    if not correlation.size:
        return 0.0
    share = np.clip(np.linalg.eigvalsh(correlation), 0.0, None)
    share = share[share > 0] / share.sum()
    return float(np.exp(-np.sum(share * np.log(share))))


def study(rewards: Array, names: Sequence[str]) -> Hygiene:
    """Return what ``rewards`` show.

    Args:
        rewards: (n, k) rewards of different programs in [0, 1].
        names: k names of the dimensions.
    """
    distinct = np.unique(rewards, axis=0)
    moving = np.ptp(distinct, axis=0) > 1e-12
    correlation = np.eye(len(names))
    if moving.any():
        # Of ranks: a few wrecks that are bad at everything would make any rewards look alike.
        ranks = np.apply_along_axis(_ranks, 0, distinct[:, moving])
        block = np.atleast_2d(np.corrcoef(ranks, rowvar=False))
        correlation[np.ix_(moving, moving)] = block
    pairs = [
        (names[i], names[j], float(correlation[i, j]))
        for i in range(len(names))
        for j in range(i + 1, len(names))
        if abs(correlation[i, j]) > COLLINEAR
    ]
    saturated = {}
    for name, column in zip(names, rewards.T, strict=True):
        for share in (np.mean(column >= 1.0), -np.mean(column <= 0.0)):
            if abs(share) >= SATURATED:
                saturated[name] = float(share)
    return Hygiene(
        programs=len(rewards),
        distinct=len(distinct),
        correlation=correlation,
        effective_rank=effective_rank(correlation[np.ix_(moving, moving)]),
        constant=tuple(name for name, moves in zip(names, moving, strict=True) if not moves),
        saturated=saturated,
        collinear=tuple(pairs),
    )


def _ranks(values: Array) -> Array:
    """Return the rank of each of ``values`` (n,), the mean of their ranks for equal ones."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: Array = (last - (count - 1) / 2)[place]
    return ranks


def warnings_of(hygiene: Hygiene) -> Iterator[str]:
    """Yield a sentence for every finding that should be looked at before a long run."""
    if hygiene.distinct < FEWEST:
        yield (
            f"only {hygiene.distinct} different reward vectors among {hygiene.programs} programs: "
            "too few to tell whether the rewards conflict"
        )
        return
    for name in hygiene.constant:
        yield f"reward {name} was the same for all {hygiene.programs} programs: it guides nothing"
    for name, share in hygiene.saturated.items():
        if name not in hygiene.constant:
            end = "top" if share > 0 else "bottom"
            yield (
                f"reward {name} sits at the {end} of its range for {abs(share):.0%} of the "
                "programs: widen the range"
            )
    for one, other, correlation in hygiene.collinear:
        yield f"rewards {one} and {other} move as one (correlation {correlation:+.2f}): merge them"
    k = len(hygiene.correlation)
    if k > 1 and 0 < hygiene.effective_rank < LOW_RANK:
        yield (
            f"the {k} rewards are worth {hygiene.effective_rank:.2f} independent ones: learning on "
            "the vector gains nothing over learning on its mean"
        )
