"""Says which side a vertex of a graph goes to."""

import numpy as np


# EVOLVE-BLOCK-START
def preference(left, right, open_weight, degree):
    gain = right - left
    settled = np.sqrt(np.abs(left) + np.abs(right))
    order = 0.5 * open_weight - settled
    order = order + 0.1 * degree
    side = gain + 0.5 * np.mean(gain)
    return order, side


# EVOLVE-BLOCK-END
