"""Regular hexagons of one size in a regular hexagon that is as small as can be."""

import numpy as np


# EVOLVE-BLOCK-START
def pack(n):
    i = np.arange(n)
    row = i // 4
    x = 1.9 * (i % 4) + 0.8 * (row % 2)
    y = 1.8 * row
    turn = 0.1 * np.sin(3.0 * i)
    step = 0.3
    for k in range(6 * n):
        p = k % n
        dx = step * np.cos(2.4 * k)
        dy = step * np.sin(2.4 * k)
        x, y, turn = better(x, y, turn, p, dx, dy, 0.2 * dx)
        step = 0.98 * step
    middle = (np.mean(x), np.mean(y), 0.5)
    return x, y, turn, middle


# EVOLVE-BLOCK-END


def better(x, y, turn, p, dx, dy, da):
    """Return the hexagons with hexagon p moved and turned, or as they were if that is no gain."""
    u, v, a = x.copy(), y.copy(), turn.copy()
    u[p] += dx
    v[p] += dy
    a[p] += da
    return (u, v, a) if side(u, v, a) < side(x, y, turn) else (x, y, turn)


def side(x, y, turn, outer=0.5):
    """Return roughly the side of a hexagon around all, in units of theirs."""
    axes = turn[:, None] + np.pi / 6 + np.pi / 3 * np.arange(3)
    nx, ny = np.cos(axes), np.sin(axes)
    reach = np.abs(
        nx[:, None] * (x - x[:, None])[..., None] + ny[:, None] * (y - y[:, None])[..., None]
    )
    corner = turn[None, :, None] - axes[:, None]
    height = np.max(np.abs(np.cos(corner[..., None] + np.pi / 3 * np.arange(3))), axis=-1)
    room = np.max(reach / (height + np.sqrt(3) / 2), axis=-1)
    room = np.maximum(room, room.T) + 99 * np.eye(len(x))
    scale = max(np.min(room), 1e-9)
    m = outer + np.pi / 6 + np.pi / 3 * np.arange(3)
    far = np.abs(np.cos(m) * (x - np.mean(x))[:, None] + np.sin(m) * (y - np.mean(y))[:, None])
    tall = np.max(
        np.abs(np.cos(turn[:, None, None] - m[:, None] + np.pi / 3 * np.arange(3))), axis=-1
    )
    return np.max(far / scale + tall) * 2 / np.sqrt(3)
