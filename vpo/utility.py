"""The set utility of a rollout's answers, its parts, and its gain over references.

    R(S) = E_{w ~ Dir(alpha)} [ max_{s in S} w . r_s ]

is high when the answers cover many trade-offs between the objectives. With v_s = E_w[w.r_s], the
value of one answer alone,

    M = mean_s v_s,  B = max_s v_s,  D = R(S) - B >= 0,  U = M + lambda_b (B - M) + lambda_d D

so (lambda_b, lambda_d) = (1, 1) is the utility of Vector Policy Optimization (arXiv 2605.22817),
(1, 0) best-of-m and (0, 0) the scalar mean. Given references P, every u(w, r_s) is replaced by
max(0, u(w, r_s) - max_{p in P} u(w, r_p)): R is then R(S u P) - R(P), and copying P is worth 0.

This module needs numpy and scipy only; :mod:`vpo.torch_utility` is the same on tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vpo.expected import Preference, Scalarizer, expected_gain
from vpo.sets import Bucket, Floats, RewardBatch, by_shape
from vpo.simplex import REPLICATES


@dataclass(frozen=True)
class SetUtility:
    """Utilities of n sets; each field is (n,), or a scalar array for one set.

    Attributes:
        value: U, what a rollout is rewarded with.
        expected_max: R(S), or its gain over the references.
        mean: M, the mean value of an answer.
        best: B, the value of the best answer.
        specialisation: D = R - B, what the set adds to its best answer.
        standard_error: Of ``value``, from the quadrature; 0 where a closed form applies.
    """

    value: Floats
    expected_max: Floats
    mean: Floats
    best: Floats
    specialisation: Floats
    standard_error: Floats


@dataclass(frozen=True)
class Parts:
    """Replicates, each (n, REPLICATES), of M, B and R of n sets of one shape."""

    mean: Floats
    best: Floats
    expected_max: Floats

    def combine(self, lambda_b: float, lambda_d: float) -> Floats:
        """Return the replicates of U."""
        if lambda_b == lambda_d == 1.0:
            return self.expected_max  # no rounding from terms that cancel
        spread = lambda_b * (self.best - self.mean)
        return self.mean + spread + lambda_d * (self.expected_max - self.best)


def set_utility(
    rewards: RewardBatch,
    *,
    references: Sequence[Any] | npt.NDArray[Any] | None = None,
    alpha: float = 1.0,
    lambda_b: float = 1.0,
    lambda_d: float = 1.0,
    scalarizer: Scalarizer = "linear",
    n_weights: int = 1024,
    seed: int = 0,
) -> SetUtility:
    """Return the utility of each set of reward vectors.

    Args:
        rewards: One (m, k) matrix; or a batch: an (n, m, k) array or n matrices (m_i, k_i). Rewards
            are on one scale, best in [0, 1]: R depends on the scale of each objective.
        references: What the answers must beat: one (p, k) matrix, or for a batch one (p_i, k_i)
            matrix or None a set.
        alpha: Concentration of the weights, positive; 1 as in the paper.
        lambda_b: Weight of the best answer's lead over the mean.
        lambda_d: Weight of the specialisation gain D.
        scalarizer: See :class:`vpo.expected.Preference`.
        n_weights: Nodes of the quadrature, a power of 2; used only where no closed form applies.
        seed: Seed of the quadrature. The same nodes serve every set with the same k. Change it
            from step to step, so that errors of the quadrature average out.

    Raises:
        ValueError: If a shape does not fit, a number is not finite, an option is out of range, or
            some set is empty although rewards are negative (an empty set is worth 0).
    """
    preference = Preference(alpha, scalarizer, n_weights, seed)
    single = not _is_batch(rewards)
    batch = [rewards] if single else rewards
    buckets = by_shape(batch, [references] if single and references is not None else references)
    check_bounds(buckets, scalarizer)
    n = len(batch)
    value, error = np.empty(n), np.empty(n)
    r, mean, best = np.empty(n), np.empty(n), np.empty(n)
    for bucket in buckets:
        parts = utility_parts(bucket, preference)
        replicates = parts.combine(lambda_b, lambda_d)
        value[bucket.index] = replicates.mean(axis=1)
        error[bucket.index] = standard_error(replicates)
        r[bucket.index] = parts.expected_max.mean(axis=1)
        mean[bucket.index] = parts.mean.mean(axis=1)
        best[bucket.index] = parts.best.mean(axis=1)
    fields = (value, r, mean, best, np.maximum(r - best, 0.0), error)
    return SetUtility(*(field[0, ...] if single else field for field in fields))


def utility_parts(bucket: Bucket, preference: Preference) -> Parts:
    """Return M, B and R of the sets of one shape, as gains where there are references."""
    rows, references = bucket.rows, bucket.references
    n, m, k = rows.shape
    if m == 0:
        nothing = np.zeros((n, REPLICATES))
        return Parts(nothing, nothing, nothing)
    r = expected_gain(rows, references, preference)
    alone = rows.reshape(n * m, 1, k)
    beside = np.repeat(references, m, axis=0)
    values = expected_gain(alone, beside, preference).reshape(n, m, REPLICATES)
    winner = values.mean(axis=2).argmax(axis=1)
    return Parts(values.mean(axis=1), values[np.arange(n), winner], r)


def standard_error(replicates: Floats) -> Floats:
    """Return the (n,) standard errors of the means of (n, REPLICATES) replicates."""
    spread = replicates - replicates[:, :1]  # exactly 0 for a closed form
    error: Floats = spread.std(axis=1, ddof=1) / np.sqrt(REPLICATES)
    return error


def check_bounds(buckets: Sequence[Bucket], scalarizer: Scalarizer) -> None:
    """Refuse negative rewards where 0 stands for "nothing": empty sets and hypervolume.

    Raises:
        ValueError: If a reward is negative there.
    """
    hypervolume = scalarizer == "hypervolume"
    if not (hypervolume or any(bucket.rows.shape[1] == 0 for bucket in buckets)):
        return
    arrays = [array for bucket in buckets for array in (bucket.rows, bucket.references)]
    lowest = min((float(array.min()) for array in arrays if array.size), default=0.0)
    if lowest < 0.0:
        why = "hypervolume is measured from 0" if hypervolume else "an empty set is worth 0"
        raise ValueError(f"rewards: {lowest:g} is negative, but {why}; map rewards to [0, 1]")


def _is_batch(rewards: Any) -> bool:
    if isinstance(rewards, np.ndarray):
        return rewards.ndim != 2
    return not len(rewards) or np.ndim(rewards[0]) != 1 or len(rewards[0]) == 0
