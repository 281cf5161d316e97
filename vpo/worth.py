"""What a rollout, or a prefix of its answers, is worth to an estimator.

A worth is a function from sets of one shape to replicates (see :mod:`vpo.expected`), so that
reward-to-go and leave-one-out shares follow from it in :mod:`vpo.credit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from vpo import credit as shares
from vpo.expected import Preference, best_at_nodes, expected_gain
from vpo.sets import Bucket, Floats, Ints
from vpo.simplex import REPLICATES, Quadrature
from vpo.utility import utility_parts

Credit = Literal["rollout", "prefix", "loo"]
#: ``"utility"``: the set utility U; ``"mean"``: mean reward over answers and objectives;
#: ``"sum"``: the same summed, over distinct answers.
Kind = Literal["utility", "mean", "sum"]


def worth(
    kind: Kind,
    preference: Preference,
    lambda_b: float = 1.0,
    lambda_d: float = 1.0,
    multipliers: Sequence[float] | None = None,
) -> shares.Value:
    """Return the function from a bucket to (b, REPLICATES) worths; an empty set is worth 0.

    With multipliers mu the worth W becomes (W + sum_j mu_j q_j) / (1 + sum_j mu_j), where q_j is
    the mean reward j over the answers: the Lagrangian of floors on q.
    """

    def plain(bucket: Bucket) -> Floats:
        rows = bucket.rows
        if rows.shape[1] == 0:
            return np.zeros((len(rows), REPLICATES))
        if kind == "utility" and lambda_b == lambda_d == 1.0:
            return expected_gain(rows, bucket.references, preference)  # U is R: no need for parts
        if kind == "utility":
            return utility_parts(bucket, preference).combine(lambda_b, lambda_d)
        scalar = rows.mean(axis=(1, 2)) if kind == "mean" else _distinct_sum(rows)
        return np.repeat(scalar[:, None], REPLICATES, axis=1)

    if multipliers is None:
        return plain
    mu = np.asarray(multipliers, dtype=np.float64)

    def constrained(bucket: Bucket) -> Floats:
        rows = bucket.rows
        if rows.shape[1] == 0:
            return plain(bucket)
        if mu.shape != rows.shape[2:]:
            raise ValueError(f"multipliers: shape {mu.shape}, the rewards have k = {rows.shape[2]}")
        floors = rows.mean(axis=1) @ mu
        total: Floats = (plain(bucket) + floors[:, None]) / (1.0 + mu.sum())
        return total

    return constrained


def returns(
    buckets: Sequence[Bucket], value: shares.Value, credit: Credit, n: int
) -> tuple[Floats, Ints]:
    """Return the (n, 1 + c, REPLICATES) returns of n rollouts and their (n,) numbers of answers.

    Column 0 is the worth of the rollout. ``"prefix"`` adds the rewards-to-go of answers
    1 to m_max and of what follows the last; ``"loo"`` adds the shares of answers 1 to m_max. What
    a shorter rollout lacks is 0: nothing was gained there.
    """
    widest = max((bucket.rows.shape[1] for bucket in buckets), default=0)
    extra = {"rollout": 0, "prefix": widest + 1, "loo": widest}[credit]
    result = np.zeros((n, 1 + extra, REPLICATES))
    n_answers = np.zeros(n, dtype=np.intp)
    for bucket in buckets:
        m = bucket.rows.shape[1]
        n_answers[bucket.index] = m
        if credit == "prefix":
            rest = shares.to_go(bucket, value)
            result[bucket.index, 0] = rest[:, 0]
            result[bucket.index, 1 : 2 + m] = rest
        else:
            result[bucket.index, 0] = value(bucket)
            if credit == "loo":
                result[bucket.index, 1 : 1 + m] = shares.leave_one_out(bucket, value)
    return result, n_answers


def mean_vectors(buckets: Sequence[Bucket], n: int) -> Floats:
    """Return the (n, k) mean reward vectors of the rollouts; 0 for one without an answer.

    Raises:
        ValueError: If the number of objectives differs.
    """
    k = common_k(buckets)
    result = np.zeros((n, k))
    for bucket in buckets:
        if bucket.rows.shape[1]:
            result[bucket.index] = bucket.rows.mean(axis=1)
    return result


def scores_at_nodes(
    buckets: Sequence[Bucket], preference: Preference, n: int
) -> tuple[Floats, Quadrature]:
    """Return the (n, J) worths of the rollouts under each node's weights, and the nodes.

    Where there are references a worth is the gain over them.

    Raises:
        ValueError: If the number of objectives differs.
    """
    quadrature = preference.quadrature(common_k(buckets))
    result = np.zeros((n, len(quadrature.weights)))
    for bucket in buckets:
        if bucket.rows.shape[1] == 0:
            continue
        best = best_at_nodes(bucket.rows, preference, quadrature)
        if bucket.references.shape[1]:
            floor = best_at_nodes(bucket.references, preference, quadrature)
            best = np.maximum(best - floor, 0.0)
        result[bucket.index] = best
    return result, quadrature


def common_k(buckets: Sequence[Bucket]) -> int:
    """Return the number of objectives that all non-empty sets share, 1 if all are empty.

    Raises:
        ValueError: If they differ.
    """
    found = sorted({bucket.rows.shape[2] for bucket in buckets if bucket.rows.shape[1]})
    if len(found) > 1:
        raise ValueError(f"rewards: k differs ({found}); this estimator needs one k in a batch")
    return found[0] if found else 1


def _distinct_sum(rows: Floats) -> Floats:
    same = (rows[:, :, None] == rows[:, None, :]).all(axis=3)
    repeated = (same & np.tri(rows.shape[1], k=-1, dtype=bool)).any(axis=2)
    total: Floats = np.where(repeated, 0.0, rows.sum(axis=2)).sum(axis=1)
    return total
