"""Who in a rollout earned what: shares of a set utility among the answers.

Along a chain, where answer j is written after answers 1 to j - 1, the tokens of answer j may be
credited with the reward-to-go G_j = U(S) - U(S_<j): what was reached before cannot depend on them,
so the gradient stays unbiased with less variance than U(S) for every token. Leave-one-out and
Shapley shares ignore that an answer steers the later ones and are unbiased for answers drawn
independently only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Literal, get_args

import numpy as np

from vpo.expected import Preference, Scalarizer, expected_gain
from vpo.sets import Bucket, Floats, RewardBatch, by_shape
from vpo.utility import check_bounds, standard_error

Share = Literal["prefix", "loo", "shapley"]

#: Replicates (b, REPLICATES) of the worth of the sets of one shape.
Value = Callable[[Bucket], Floats]

# Up to here Shapley shares are taken over all subsets, which keeps closed forms exact.
_MAX_SUBSET_ROWS = 4


@dataclass(frozen=True)
class Shares:
    """What the answers of n sets earned.

    Attributes:
        values: For each set the (m_i,) shares of its answers.
        standard_errors: For each set the (m_i,) errors of these, from the quadrature; 0 where
            closed forms apply.
    """

    values: list[Floats]
    standard_errors: list[Floats]


def answer_shares(
    rewards: RewardBatch,
    share: Share = "prefix",
    *,
    references: RewardBatch | None = None,
    alpha: float = 1.0,
    scalarizer: Scalarizer = "linear",
    n_weights: int = 1024,
    seed: int = 0,
) -> Shares:
    """Return the shares of the answers of each set in R(S), or in the gain.

    Args:
        rewards: (n, m, k) array or n matrices (m_i, k_i).
        share: ``"prefix"``: what each answer adds to those before it; sums to R. ``"loo"``: what
            would be lost without it; a repeated answer gets 0, sums to R at most. ``"shapley"``:
            what it adds to a random subset of the others; sums to R.
        references: As for :func:`vpo.utility.set_utility`, which also explains the rest.
        alpha: Concentration of the weights.
        scalarizer: How rewards are weighed.
        n_weights: Nodes of the quadrature.
        seed: Seed of the quadrature.
    """
    if share not in get_args(Share):
        raise ValueError(f"share is {share!r}, allowed: {', '.join(get_args(Share))}")
    preference = Preference(alpha, scalarizer, n_weights, seed)
    buckets = by_shape(rewards, references)
    check_bounds(buckets, scalarizer)

    def value(bucket: Bucket) -> Floats:
        return expected_gain(bucket.rows, bucket.references, preference)

    values: list[Floats] = [np.empty(0)] * len(rewards)
    errors = list(values)
    for bucket in buckets:
        if share == "prefix":
            rest = to_go(bucket, value)
            shares = rest[:, :-1] - rest[:, 1:]
        elif share == "loo":
            shares = leave_one_out(bucket, value)
        else:
            shares = shapley(bucket, preference)
        for i, replicates in zip(bucket.index, shares, strict=True):
            values[i] = replicates.mean(axis=1)
            errors[i] = standard_error(replicates)
    return Shares(values, errors)


def to_go(bucket: Bucket, value: Value) -> Floats:
    """Return (b, m + 1, REPLICATES) rewards-to-go G_1 = U(S), ..., G_m, and 0 after the last."""
    m = bucket.rows.shape[1]
    worth = np.stack([value(_with(bucket, bucket.rows[:, :j])) for j in range(m + 1)], axis=1)
    rest: Floats = worth[:, -1:] - worth
    return rest


def leave_one_out(bucket: Bucket, value: Value) -> Floats:
    """Return (b, m, REPLICATES) losses U(S) - U(S without s)."""
    rows = bucket.rows
    whole = value(bucket)
    share = np.empty((len(rows), rows.shape[1], whole.shape[1]))
    for s in range(rows.shape[1]):
        share[:, s] = whole - value(_with(bucket, np.delete(rows, s, axis=1)))
    return share


def shapley(bucket: Bucket, preference: Preference) -> Floats:
    """Return (b, m, REPLICATES) Shapley shares of R(S), or of the gain over the references.

    Small sets are enumerated. For larger ones each weight vector is an airport game: on ascending
    scores x_(1) <= ... <= x_(m), share (i) is sum_{l <= i} (x_(l) - x_(l-1)) / (m - l + 1) with
    x_(0) = 0 (Littlechild & Owen 1973), averaged by quadrature.
    """
    rows, references = bucket.rows, bucket.references
    b, m, k = rows.shape
    if m > _MAX_SUBSET_ROWS:
        quadrature = preference.quadrature(k)
        scores = np.stack([preference.scores(rows[:, s], quadrature) for s in range(m)], axis=1)
        if references.shape[1]:
            others = range(references.shape[1])
            floor = [preference.scores(references[:, p], quadrature) for p in others]
            scores = np.maximum(scores - np.max(floor, axis=0)[:, None], 0.0)
        shares = _airport(scores).reshape(b * m, -1)
        return quadrature.replicates(shares).reshape(b, m, -1)
    subsets = [[s for s in range(m) if code >> s & 1] for code in range(1 << m)]
    worth = [expected_gain(rows[:, inside], references, preference) for inside in subsets]
    total = np.zeros((b, m, worth[0].shape[1]))
    for code, inside in enumerate(subsets):
        for s in inside:
            weight = factorial(len(inside) - 1) * factorial(m - len(inside)) / factorial(m)
            total[:, s] += weight * (worth[code] - worth[code & ~(1 << s)])
    return total


def _airport(scores: Floats) -> Floats:
    m = scores.shape[1]
    order = np.argsort(scores, axis=1, kind="stable")
    ascending = np.take_along_axis(scores, order, axis=1)
    sharers = np.arange(m, 0, -1)[:, None]
    shares = np.cumsum(np.diff(ascending, axis=1, prepend=0.0) / sharers, axis=1)
    result = np.empty_like(shares)
    np.put_along_axis(result, order, shares, axis=1)
    return result


def _with(bucket: Bucket, rows: Floats) -> Bucket:
    return Bucket(bucket.index, rows, bucket.references)
