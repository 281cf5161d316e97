"""Points whose largest and smallest distance differ as little as can be."""

import numpy as np


# EVOLVE-BLOCK-START
def points(n, d):
    side = int(np.ceil(n ** (1 / d)))
    i = np.arange(n)[:, None]
    x = i // side ** np.arange(d) % side + 0.0
    x = x + 0.1 * np.sin(7 * x + i)
    for step in range(40):
        gap = x[:, None] - x
        dist = np.sqrt(np.sum(gap * gap, axis=2) + 1e-9)
        push = np.maximum(1 - dist, 0) / dist
        x = x + 0.2 * np.sum(push[:, :, None] * gap, axis=1)
        pull = 0.02 * (1 - step / 40)
        x = x - pull * (x - np.mean(x, axis=0))
    return x


# EVOLVE-BLOCK-END
