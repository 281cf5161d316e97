"""Closed forms of E[max_s w.r_s] under a Dirichlet distribution, and of the hypervolume.

Everything is vectorised over n sets of one shape and exact to rounding. What has no cheap closed
form is left to :mod:`vpo.simplex`.
"""

from __future__ import annotations

import numpy as np

from vpo.sets import Floats

#: Hypervolume by inclusion-exclusion takes 2^m - 1 terms.
MAX_HYPERVOLUME_ROWS = 8


def best_of_two(rows: Floats, alpha: int = 1) -> Floats:
    """Return E[max(w.a, w.b)] for sets of two rows, any number of objectives.

    With independent Exp(1) variables, w.c = E.c / sum(E), so that k E[(w.c)_+] = H(p, q) for the p
    positive parts a_i and the q negative parts -b_j of c = a - b; memorylessness gives
    ``H(i, j) = (a_i H(i, j-1) + b_j H(i-1, j)) / (a_i + b_j)``, a divided difference of
    x_+^k / k! (Hermite-Genocchi). Every term is positive: ties cancel nothing.

    Args:
        rows: (n, 2, k) reward vectors.
        alpha: Whole concentration of the Dirichlet distribution: a Gamma(alpha) variable is a sum
            of alpha exponentials.

    Returns:
        (n,) expectations.
    """
    a, b = rows[:, 0], rows[:, 1]
    descending = np.repeat(np.sort(a - b, axis=1)[:, ::-1].T, alpha, axis=0)  # (k alpha, n)
    gains = np.maximum(descending, 0.0)
    losses = np.maximum(-descending[::-1], 0.0)
    total = len(descending)
    # Diagonal d of the table holds H(i, d-i). p + q <= k, and zero parts change nothing, so the
    # answer lies on the last diagonal at i = p.
    diagonal = np.zeros((1, rows.shape[0]))
    for d in range(1, total + 1):
        following = np.zeros((d + 1, rows.shape[0]))
        following[d] = diagonal[d - 1] + gains[d - 1]
        if d > 1:
            gain, loss = gains[: d - 1], losses[: d - 1][::-1]
            both = gain + loss
            share = np.divide(gain, both, out=np.zeros_like(both), where=both > 0.0)
            following[1:d] = share * diagonal[1:] + (1.0 - share) * diagonal[:-1]
        diagonal = following
    positives = np.count_nonzero(descending > 0.0, axis=0)
    excess = diagonal[positives, np.arange(rows.shape[0])]
    value: Floats = b.mean(axis=1) + excess / total
    return value


def best_on_segment(rows: Floats, alpha: float = 1.0) -> Floats:
    """Return E[max_s w.r_s] for two objectives, any number of rows, any concentration.

    w.r_s is a line in w_1 ~ Beta(alpha, alpha); row s wins on one interval of it.

    Args:
        rows: (n, m, 2) reward vectors, none dominated.
        alpha: Concentration of the Dirichlet distribution.

    Returns:
        (n,) expectations.
    """
    base, slope = rows[:, :, 1], rows[:, :, 0] - rows[:, :, 1]
    rise = slope[:, :, None] - slope[:, None, :]
    drop = base[:, None, :] - base[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = drop / rise  # where s and t change places
    low = np.where(rise > 0.0, meet, 0.0).max(axis=2).clip(0.0, 1.0)
    high = np.where(rise < 0.0, meet, 1.0).min(axis=2).clip(0.0, 1.0)
    high = np.maximum(high, low)
    mass = _beta_cdf(high, alpha, alpha) - _beta_cdf(low, alpha, alpha)
    # The partial mean of Beta(alpha, alpha) is half the cdf of Beta(alpha + 1, alpha).
    moment = 0.5 * (_beta_cdf(high, alpha + 1.0, alpha) - _beta_cdf(low, alpha + 1.0, alpha))
    value: Floats = (base * mass + slope * moment).sum(axis=1)
    return value


def best_on_triangle(rows: Floats) -> Floats:
    """Return E[max_s w.r_s] for three objectives and uniform weights, any number of rows.

    Row s wins on a convex polygon, the triangle cut by m - 1 half-planes; a linear function
    integrates to area times its value at the centroid.

    Args:
        rows: (n, m, 3) reward vectors, none dominated (so no two are equal).

    Returns:
        (n,) expectations.
    """
    n, m, _ = rows.shape
    # w.r = r_3 + (r_1 - r_3) x + (r_2 - r_3) y on the triangle x, y >= 0, x + y <= 1.
    plane = np.stack(
        [rows[:, :, 2], rows[:, :, 0] - rows[:, :, 2], rows[:, :, 1] - rows[:, :, 2]], axis=2
    )
    owner = np.repeat(np.arange(n), m)
    row = np.tile(np.arange(m), n)
    x = np.tile(np.array([0.0, 1.0, 0.0]), (n * m, 1))
    y = np.tile(np.array([0.0, 0.0, 1.0]), (n * m, 1))
    for shift in range(1, m):
        lead = plane[owner, row] - plane[owner, (row + shift) % m]
        x, y, alive = _clip(x, y, lead[:, :1] + lead[:, 1:2] * x + lead[:, 2:] * y)
        owner, row = owner[alive], row[alive]
    c = plane[owner, row]
    x0, y0, x1, y1, x2, y2 = x[:, :1], y[:, :1], x[:, 1:-1], y[:, 1:-1], x[:, 2:], y[:, 2:]
    area = 0.5 * ((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0))
    at_centroid = c[:, :1] + (c[:, 1:2] * (x0 + x1 + x2) + c[:, 2:] * (y0 + y1 + y2)) / 3.0
    share = (area * at_centroid).sum(axis=1)
    return 2.0 * np.bincount(owner, share, minlength=n).astype(np.float64)


def hypervolume(rows: Floats) -> Floats:
    """Return the volume that each set dominates above the origin, by inclusion-exclusion.

    Args:
        rows: (n, m, k) reward vectors, at least 0, m at most :data:`MAX_HYPERVOLUME_ROWS`.

    Returns:
        (n,) volumes.
    """
    n, m, k = rows.shape
    # corners[subset] is the componentwise minimum over a subset of the rows seen so far.
    corners = np.full((1, n, k), np.inf)
    signs = np.array([-1.0])
    for s in range(m):
        corners = np.concatenate([corners, np.minimum(corners, rows[:, s])])
        signs = np.concatenate([signs, -signs])
    volume: Floats = signs[1:] @ corners[1:].prod(axis=2)
    return volume


def _beta_cdf(u: Floats, a: float, b: float) -> Floats:
    if b == 1.0:
        power: Floats = u**a
        return power
    from scipy.special import betainc

    cdf: Floats = betainc(a, b, u)
    return cdf


def _clip(x: Floats, y: Floats, lead: Floats) -> tuple[Floats, Floats, Floats]:
    """Cut convex polygons, one a line, down to where ``lead`` at the vertices is at least 0.

    Polygons of fewer vertices than the widest repeat their last one.

    Returns:
        Vertices of the polygons that remain, and the mask of those polygons.
    """
    after = np.roll(lead, -1, axis=1)
    inside = lead >= 0.0
    crossed = inside != (after >= 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(crossed, lead / (lead - after), 0.0)
    count, width = lead.shape

    def both(v: Floats) -> Floats:
        cut = v + step * (np.roll(v, -1, axis=1) - v)
        return np.stack([v, cut], axis=2).reshape(count, 2 * width)

    kept = np.stack([inside, crossed], axis=2).reshape(count, 2 * width)
    sizes = kept.sum(axis=1)
    alive = sizes >= 3
    if not alive.any():
        return x[:0], y[:0], alive
    new_width = int(sizes.max())
    order = np.argsort(~kept[alive], axis=1, kind="stable")
    slots = np.minimum(np.arange(new_width), sizes[alive, None] - 1)
    chosen = np.take_along_axis(order, slots, axis=1)
    return (
        np.take_along_axis(both(x)[alive], chosen, axis=1),
        np.take_along_axis(both(y)[alive], chosen, axis=1),
        alive,
    )
