"""Names the terms of a law of two variables; their coefficients are fitted to each data set."""

import numpy as np


# EVOLVE-BLOCK-START
def terms(a, b):
    first = a
    second = b
    third = np.abs(a - b)
    return [first, second, third]


# EVOLVE-BLOCK-END
