"""Scores the bins with room for the item that has just come; the highest score takes it."""

import numpy as np


# EVOLVE-BLOCK-START
def priority(item, bins):
    room = np.max(bins)
    left = (bins - item) / room
    size = item / room
    tight = np.exp(-3 * left)
    awkward = np.minimum(left, 0.3 - left)
    fresh = np.where(bins == room, 0.5, 0)
    return tight - 4 * size * awkward - fresh


# EVOLVE-BLOCK-END
