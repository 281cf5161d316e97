"""What the estimators do to the rewards of one group: pure functions on (g, n) arrays.

g groups of equal size n are handled at once. Each function takes rewards x (larger is better) and
returns centred credits of the same shape; scaling, floors and token credit are the business of
:mod:`vpo.advantages`, which is the same for all of them.
"""

from __future__ import annotations

from math import comb, log

import numpy as np

from vpo.sets import Floats


def less_mean(x: Floats) -> Floats:
    """Return x_i - mean(x) along axis 1, the baseline of GRPO (arXiv 2402.03300, eq. 3)."""
    centred: Floats = x - x.mean(axis=1, keepdims=True)
    return centred


def less_others(x: Floats) -> Floats:
    """Return x_i - mean of the other x_j along axis 1 (RLOO, arXiv 2402.14740, eq. 8)."""
    n = x.shape[1]
    return less_mean(x) * (n / (n - 1)) if n > 1 else np.zeros_like(x)


def max_at_k(x: Floats, subset: int) -> Floats:
    """Return for each i the mean over all subsets of the group of max(x) if i is in it, else 0.

    a_(i) = [C(i-1, s-1) x_(i) + sum_{j>i} C(j-2, s-2) x_(j)] / C(n, s) on ascending ranks: the
    unbiased gradient weight of E[max of s samples] (arXiv 2510.23393; PKPO, arXiv 2505.15201).

    Args:
        x: (g, n) rewards.
        subset: s, from 1 to n.

    Returns:
        (g, n) weights, centred by the caller.
    """
    n = x.shape[1]
    order = np.argsort(x, axis=1, kind="stable")
    ascending = np.take_along_axis(x, order, axis=1)
    total = comb(n, subset)
    leads = np.array([comb(i, subset - 1) / total for i in range(n)])
    # Rank j > i leads subsets that hold i as well: choose the other s - 2 below j.
    shares = np.array(
        [comb(j - 1, subset - 2) / total if subset > 1 <= j else 0.0 for j in range(n)]
    )
    above = np.cumsum((shares * ascending)[:, ::-1], axis=1)[:, ::-1]
    weights = leads * ascending
    weights[:, :-1] += above[:, 1:]
    return _unsorted(weights, order)


def max_gain(x: Floats, subset: int) -> Floats:
    """Return what each i adds to the maximum of a random subset that holds it, times s / n.

    A_i = (1 / C(n, s)) sum over subsets I with i in I of [max_I x - max_{I without i} x]
        = (1 / C(n, s)) sum_{j < rank of i} C(j-1, s-2) (x_(i) - x_(j)):
    the same gradient as :func:`max_at_k` with the leave-one-out baseline of least variance (PKPO,
    arXiv 2505.15201, "loo minus one"). Unbiased, for I without i does not depend on i.

    Args:
        x: (..., n) rewards.
        subset: s, from 2 to n.
    """
    n = x.shape[-1]
    order = np.argsort(x, axis=-1, kind="stable")
    ascending = np.take_along_axis(x, order, axis=-1)
    total = comb(n, subset)
    below = np.array([comb(j, subset - 2) / total for j in range(n)])
    beaten = np.cumsum(below) - below
    gain = beaten * ascending - (np.cumsum(below * ascending, axis=-1) - below * ascending)
    return _unsorted(gain, order)


def entropic(x: Floats, kl: float = log(2.0)) -> Floats:
    """Return e_i / mean_{j != i} e_j - 1 with e_i = exp(b (x_i - max x)), b by group.

    b makes the KL divergence of softmax(b x) from uniform equal ``kl`` (TTT-Discover, arXiv
    2601.16175); where the group cannot reach it, because the best is shared by many, b is at
    its cap. The caller zeroes groups whose rewards tie.

    Args:
        x: (g, n) rewards.
        kl: Target, nats.
    """
    n = x.shape[1]
    if n == 1:
        return np.zeros_like(x)
    gap = x - x.max(axis=1, keepdims=True)
    low, high = np.full((len(x), 1), -20.0), np.full((len(x), 1), log(1e6))
    for _ in range(60):  # bisection on log b, down to rounding
        middle = 0.5 * (low + high)
        under = _kl_from_uniform(np.exp(middle) * gap) < kl
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    e = np.exp(np.exp(low) * gap)
    others = (e.sum(axis=1, keepdims=True) - e) / (n - 1)
    ratio: Floats = e / (others + 1e-12) - 1.0
    return ratio


def decoupled(vectors: Floats, epsilon: float = 1e-6, smallest: float = 1e-6) -> Floats:
    """Return the sum over objectives of rewards normalised in the group (GDPO, arXiv 2601.05242).

    Args:
        vectors: (g, n, k) reward vectors.
        epsilon: Added to the unbiased standard deviation.
        smallest: An objective with less spread than this in a group counts for nothing there.

    Returns:
        (g, n) credits, to be normalised over the batch.
    """
    centred = vectors - vectors.mean(axis=1, keepdims=True)
    std = np.sqrt((centred**2).sum(axis=1, keepdims=True) / max(vectors.shape[1] - 1, 1))
    z = np.where(std > smallest, centred / (std + epsilon), 0.0)
    credit: Floats = z.sum(axis=2)
    return credit


def _kl_from_uniform(logits: Floats) -> Floats:
    e = np.exp(logits)
    p = e / e.sum(axis=1, keepdims=True)
    entropy = -(p * np.log(np.where(p > 0.0, p, 1.0))).sum(axis=1, keepdims=True)
    kl: Floats = log(logits.shape[1]) - entropy
    return kl


def _unsorted(values: Floats, order: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Floats:
    result = np.empty_like(values)
    np.put_along_axis(result, order, values, axis=-1)
    return result
