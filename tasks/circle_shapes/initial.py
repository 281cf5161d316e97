"""Places circles in a square, or in a rectangle of its own choice: rows, then they are fitted."""

import numpy as np


# EVOLVE-BLOCK-START
def pack(n, shape):
    width = 1.0
    if shape == "rectangle":
        width = 1.1
    side = 5 + (n > 25)
    i = np.arange(n)
    x = (i % side + 0.5) / side * width
    y = (i // side + 0.5) / (n / side + 0.5) * (2 - width)
    r = np.full(n, 0.04)
    for step in range(60):
        rate = 0.004 * (1 - step / 60)
        dx = x[:, None] - x
        dy = y[:, None] - y
        gap = np.sqrt(dx * dx + dy * dy + 1e-9) + np.eye(n)
        push = np.maximum(r[:, None] + r - gap, 0)
        x = x + 0.3 * np.sum(push * dx / gap, axis=1)
        y = y + 0.3 * np.sum(push * dy / gap, axis=1)
        r = r + rate - 0.1 * np.sum(push, axis=1)
        x = np.clip(x, r, width - r)
        y = np.clip(y, r, 2 - width - r)
    return fit(width, x, y, r)


# EVOLVE-BLOCK-END


def fit(width, x, y, r):
    """Return a packing near the one wished for.

    Centres are moved inside, radii shrunk until nothing overlaps, then grown in turn.
    """
    width = min(max(width, 0.1), 1.9)
    x, y = np.clip(x, 0, width), np.clip(y, 0, 2 - width)
    wall = np.minimum(np.minimum(x, width - x), np.minimum(y, 2 - width - y))
    gap = np.hypot(x[:, None] - x, y[:, None] - y) + 9 * np.eye(len(x))
    r = np.minimum(r, wall)
    r = r - np.maximum(np.max(r[:, None] + r - gap, axis=1), 0) / 2
    for i in range(len(r)):
        r[i] = min(wall[i], np.min(gap[i] - r))
    return width, x, y, np.maximum(r, 0)
