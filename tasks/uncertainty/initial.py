"""Where a function that is its own Fourier transform shall touch zero."""

import numpy as np


# EVOLVE-BLOCK-START
def places(n):
    i = np.arange(1, n + 1)
    step = 6.7 - 0.3 / n
    bend = 0.1 * i * i / n
    start = 0.5 - 0.2 * n
    return start + step * i + bend


# EVOLVE-BLOCK-END
