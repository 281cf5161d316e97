"""Step functions for three inequalities on the autoconvolution."""

import numpy as np


# EVOLVE-BLOCK-START
def heights(which, n):
    n = min(n, 40)
    t = (np.arange(n) + 0.5) / n - 0.5
    a = 1 + 0.1 * np.cos(9 * t) - 0.2 * t
    if which == 3:
        a = a - 0.2 * np.sin(20 * t)
    for step in range(60):
        rate = 0.1 / (1 + step)
        c = np.convolve(a, a)
        peak = (c / np.max(c)) ** 10
        down = np.convolve(peak, a[::-1], "valid")
        down = down / np.mean(down)
        up = 1.0
        if which == 2:
            up = np.convolve(c, a[::-1], "valid")
            up = up / np.mean(up)
        a = a * (1 + rate * (up - down))
    return a


# EVOLVE-BLOCK-END
