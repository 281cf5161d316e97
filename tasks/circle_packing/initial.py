"""Places n circles in the unit square: they grow, push each other away, and are fitted."""

import numpy as np


# EVOLVE-BLOCK-START
def pack(n):
    side = 6
    i = np.arange(n)
    x = (i % side + 0.5) / side
    y = (i // side + 0.5) / side
    r = np.full(n, 0.05)
    for step in range(60):
        rate = 0.003 * (1 - step / 60)
        dx = x[:, None] - x
        dy = y[:, None] - y
        gap = np.sqrt(dx * dx + dy * dy + 1e-9) + np.eye(n)
        push = np.maximum(r[:, None] + r - gap, 0)
        x = x + 0.3 * np.sum(push * dx / gap, axis=1)
        y = y + 0.3 * np.sum(push * dy / gap, axis=1)
        r = r + rate - 0.1 * np.sum(push, axis=1)
        x = np.clip(x, r, 1 - r)
        y = np.clip(y, r, 1 - r)
    return fit(x, y, r)


# EVOLVE-BLOCK-END


def fit(x, y, r):
    """Return a packing near the one wished for.

    Centres are moved into the square, radii shrunk until nothing overlaps, then grown in turn.
    """
    x, y = np.clip(x, 0, 1), np.clip(y, 0, 1)
    wall = np.minimum(np.minimum(x, 1 - x), np.minimum(y, 1 - y))
    gap = np.hypot(x[:, None] - x, y[:, None] - y) + 9 * np.eye(len(x))
    r = np.minimum(r, wall)
    r = r - np.maximum(np.max(r[:, None] + r - gap, axis=1), 0) / 2
    for i in range(len(r)):
        r[i] = min(wall[i], np.min(gap[i] - r))
    return x, y, np.maximum(r, 0)
