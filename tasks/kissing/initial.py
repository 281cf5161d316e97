"""Says in which order vectors are taken into a kissing arrangement."""

import numpy as np


# EVOLVE-BLOCK-START
def priority(vectors):
    place = np.arange(1, vectors.shape[1] + 1)
    turn = vectors @ np.sqrt(place)
    weight = np.abs(vectors) @ place
    score = np.cos(1.7 * turn) + 0.3 * np.sin(weight)
    twos = np.max(np.abs(vectors), axis=1) == 2
    return score + np.where(twos, 0.8, 0.1 * (weight % 4))


# EVOLVE-BLOCK-END
