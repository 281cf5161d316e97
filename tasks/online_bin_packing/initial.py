"""Scores the open bins for the item that has just come; the highest score takes it."""

import numpy as np


# EVOLVE-BLOCK-START
def priority(item, bins):
    left = bins - item
    biggest = np.max(bins)
    share = left / biggest
    fresh = np.where(bins == biggest, 0.4, 0.0)
    index = np.arange(len(bins))
    score = 1.0 - share - fresh
    return score - index / 4


# EVOLVE-BLOCK-END
