"""Rewards of different units brought to [0, 1], where R(S) can weigh them against each other.

R(S) is linear in the scale of each reward: one that spans 0 to 100 silently takes over the weights.
Three ways, the first to be preferred: known bounds; quantiles of what was seen so far; ranks among
the answers to the same prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vpo.sets import Floats, RewardBatch


def by_bounds(rewards: RewardBatch, low: npt.ArrayLike, high: npt.ArrayLike) -> list[Floats]:
    """Return the matrices with ``low`` mapped to 0 and ``high`` to 1, clipped.

    Args:
        rewards: Matrices (m_i, k) of n rollouts.
        low: (k,) worst value of each reward; larger than ``high`` where less is better.
        high: (k,) best value.

    Raises:
        ValueError: If a bound is not finite or two are equal.
    """
    worst, best = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    span = best - worst
    if not np.isfinite(span).all() or not span.all():
        raise ValueError(f"bounds {worst} to {best}: finite ones that differ are needed")
    return [
        np.clip((matrix - worst) / span, 0.0, 1.0) if matrix.size else matrix
        for matrix in (np.asarray(entry, dtype=np.float64) for entry in rewards)
    ]


def by_rank(rewards: RewardBatch, group_ids: Sequence[int] | npt.NDArray[Any]) -> list[Floats]:
    """Return each reward's rank among all answers to the same prompt, from 0 to 1, ties averaged.

    Robust to any monotone distortion, and blind to how large a difference is: the worst of good
    answers gets 0. A reward on which all answers agree is 0.5.

    Args:
        rewards: Matrices (m_i, k) of n rollouts.
        group_ids: (n,) rollouts of one prompt share an id.
    """
    from scipy.stats import rankdata

    sets = [np.asarray(matrix, dtype=np.float64) for matrix in rewards]
    ids = np.asarray(group_ids)
    if ids.shape != (len(sets),):
        raise ValueError(f"group_ids: shape {ids.shape}, one id for each of {len(sets)} is needed")
    result = list(sets)
    for group in np.unique(ids):
        members = [i for i in np.flatnonzero(ids == group).tolist() if sets[i].size]
        if not members:
            continue
        rows = np.concatenate([sets[i] for i in members])
        ranks = rankdata(rows, axis=0)
        scaled = (ranks - 1.0) / (len(rows) - 1) if len(rows) > 1 else np.full(rows.shape, 0.5)
        cuts = np.cumsum([len(sets[i]) for i in members])[:-1]
        for i, part in zip(members, np.split(scaled, cuts), strict=True):
            result[i] = part
    return result


@dataclass(frozen=True)
class RunningScale:
    """Bounds that follow the quantiles of the rewards seen, slowly, so that steps stay comparable.

    Like a controller a frozen state: ``dataclasses.asdict`` goes into a checkpoint.

    Attributes:
        low: (k,) value that maps to 0; empty before the first update.
        high: (k,) value that maps to 1.
        quantile: Share of the rewards below ``low``, and of those above ``high``.
        memory: Weight of the past in the bounds, in [0, 1).
    """

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    quantile: float = 0.05
    memory: float = 0.95

    def __post_init__(self) -> None:
        if not (0.0 <= self.quantile < 0.5 and 0.0 <= self.memory < 1.0):
            raise ValueError(
                f"quantile {self.quantile}, memory {self.memory}: [0, 0.5) and [0, 1) are needed"
            )
        object.__setattr__(self, "low", tuple(self.low))
        object.__setattr__(self, "high", tuple(self.high))

    def update(self, rewards: RewardBatch) -> RunningScale:
        """Return the state after a batch of matrices (m_i, k); the same without an answer."""
        rows = [np.asarray(matrix, dtype=np.float64) for matrix in rewards]
        rows = [matrix for matrix in rows if matrix.size]
        if not rows:
            return self
        seen = np.concatenate(rows)
        ends = np.quantile(seen, [self.quantile, 1.0 - self.quantile], axis=0)
        if self.low:
            ends = self.memory * np.array([self.low, self.high]) + (1.0 - self.memory) * ends
        return replace(self, low=tuple(ends[0].tolist()), high=tuple(ends[1].tolist()))

    def apply(self, rewards: RewardBatch) -> list[Floats]:
        """Return the matrices on the scale; a reward that has never varied is 0.5.

        Raises:
            ValueError: Before the first update.
        """
        if not self.low:
            raise ValueError("the scale has seen no rewards yet: update it first")
        low, high = np.array(self.low), np.array(self.high)
        flat = high <= low
        scaled = by_bounds(rewards, low, np.where(flat, low + 1.0, high))
        return [np.where(flat, 0.5, matrix) if matrix.size else matrix for matrix in scaled]
