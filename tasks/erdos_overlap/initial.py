"""A step function with heights from 0 to 1 whose overlap with its complement is small."""

import numpy as np


# EVOLVE-BLOCK-START
def heights(n):
    t = (np.arange(n) + 0.5) / n - 0.5
    h = 0.5 + 0.3 * np.cos(5 * t) - 0.1 * np.cos(12 * t)
    for step in range(40):
        rate = 0.05 / (1 + 0.1 * step)
        g = 1 - h
        c = np.correlate(g, h, "full")
        peak = (c / np.max(c)) ** 8
        peak = peak / np.sum(peak)
        down = np.convolve(g, peak, "valid")
        down = np.interp(t, np.linspace(-0.5, 0.5, len(down)), down)
        h = h - rate * (down - np.mean(down))
        h = np.clip(h, 0, 1)
        h = h + 0.5 - np.mean(h)
        h = np.clip(h, 0, 1)
    return h


# EVOLVE-BLOCK-END
