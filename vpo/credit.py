"""Who in a rollout gets the credit: shares of a set utility, and advantages token by token.

Along a chain, where answer j is written after answers 1 to j - 1, the tokens of answer j may be
credited with the reward-to-go G_j = U(S) - U(S_<j): what was reached before cannot depend on them,
so the gradient stays unbiased with less variance than U(S) for every token. Leave-one-out and
Shapley shares ignore that an answer steers the later ones and are unbiased for answers drawn
independently only.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import numpy as np

from vpo.sets import Bucket, Floats

#: Replicates (b, REPLICATES) of the worth of the sets of one shape.
Value = Callable[[Bucket], Floats]


def to_go(bucket: Bucket, value: Value) -> Floats:
    """Return (b, m + 1, REPLICATES) reward-to-go G_1 = U(S), ..., G_m, and 0 after the last."""
    m = bucket.rows.shape[1]
    worth = np.stack([value(_with(bucket, bucket.rows[:, :j])) for j in range(m + 1)], axis=1)
    rest: Floats = worth[:, -1:] - worth
    return rest


def leave_one_out(bucket: Bucket, value: Value) -> Floats:
    """Return (b, m, REPLICATES) losses U(S) - U(S without s); a repeated answer gets 0."""
    rows = bucket.rows
    m = rows.shape[1]
    whole = value(bucket)
    share = np.empty((len(rows), m, whole.shape[1]))
    for s in range(m):
        share[:, s] = whole - value(_with(bucket, np.delete(rows, s, axis=1)))
    return share


def shapley(bucket: Bucket, value: Value) -> Floats:
    """Return (b, m, REPLICATES) Shapley shares, which sum to U(S), over all 2^m subsets."""
    b, m, _ = bucket.rows.shape
    if m > 10:
        raise ValueError(f"shapley: {m} answers, at most 10 are allowed (2^m subsets)")
    worth = {0: value(_with(bucket, bucket.rows[:, :0]))}
    shares = np.zeros((b, m, worth[0].shape[1]))
    members = [[s for s in range(m) if subset >> s & 1] for subset in range(1 << m)]
    for subset in range(1, 1 << m):
        worth[subset] = value(_with(bucket, bucket.rows[:, members[subset]]))
    for subset, inside in enumerate(members):
        for s in inside:
            size = len(inside)
            weight = factorial(size - 1) * factorial(m - size) / factorial(m)
            shares[:, s] += weight * (worth[subset] - worth[subset & ~(1 << s)])
    return shares


def _with(bucket: Bucket, rows: Floats) -> Bucket:
    return Bucket(bucket.index, rows, bucket.references)
