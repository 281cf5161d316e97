"""Points of which no three are nearly on a line."""

from itertools import combinations

import numpy as np


# EVOLVE-BLOCK-START
def points(n, shape):
    i = np.arange(n)
    turn = 2 * np.pi * i / n
    size = np.where(i % 2 == 0, 1.0, 0.5)
    size = size + 0.1 * np.cos(3 * turn)
    x = size * np.cos(turn)
    y = size * np.sin(turn + 0.3)
    step = 0.05
    for k in range(3 * n):
        p = k % n
        dx = step * np.cos(2.4 * k)
        dy = step * np.sin(2.4 * k)
        x, y = better(x, y, p, dx, dy, shape)
        step = 0.95 * step
    return x, y


# EVOLVE-BLOCK-END


def better(x, y, p, dx, dy, shape):
    """Return the points with point p moved, or as they were if that is no gain."""
    u, v = x.copy(), y.copy()
    u[p] += dx
    v[p] += dy
    return (u, v) if share(u, v, shape) > share(x, y, shape) else (x, y)


def share(x, y, shape):
    """Return the smallest triangle as a share of the triangle or convex hull around the points."""
    i, j, k = np.array(list(combinations(range(len(x)), 3))).T
    area = np.abs((x[j] - x[i]) * (y[k] - y[i]) - (x[k] - x[i]) * (y[j] - y[i])).min() / 2
    if shape == "triangle":
        return 2 * area / (np.max(x + y) - np.min(x) - np.min(y)) ** 2
    return area / hull(x, y)


def hull(x, y):
    """Return the area of the convex hull."""
    rest = sorted(np.stack([x, y], axis=1).tolist())
    ring = []
    for side in (rest, rest[::-1]):
        chain = []
        for p in side:
            while len(chain) > 1 and cross(chain[-2], chain[-1], p) <= 0:
                chain.pop()
            chain.append(p)
        ring += chain[:-1]
    return sum(cross((0, 0), ring[i - 1], ring[i]) for i in range(len(ring))) / 2


def cross(a, b, c):
    """Return twice the signed area of a triangle."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])
