"""Says which vertex is coloured next; it takes the first colour that is free."""

import numpy as np


# EVOLVE-BLOCK-START
def priority(saturation, degree, open_degree):
    size = len(degree)
    share = open_degree / (1 + degree)
    busy = saturation / (1 + np.max(saturation))
    big = degree / (1 + np.max(degree))
    score = big + 0.3 * share * busy
    score = score + 0.1 * np.sqrt(open_degree) / size
    return score - 0.2 * busy


# EVOLVE-BLOCK-END
