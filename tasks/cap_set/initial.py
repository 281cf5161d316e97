"""Scores the vectors of F_3^n; a greedy builder takes them in that order while they fit."""

import numpy as np


# EVOLVE-BLOCK-START
def priority(vectors, n):
    weight = np.arange(n) + 1
    zeros = np.sum(vectors == 0, axis=1)
    ones = np.sum(vectors == 1, axis=1)
    twos = n - zeros - ones
    score = np.sum(vectors * weight, axis=1) / n
    score = score + 0.5 * np.abs(ones - twos)
    return score - 0.7 * zeros


# EVOLVE-BLOCK-END
