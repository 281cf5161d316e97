"""Builds a kissing arrangement greedily, in the order of the candidate's figures."""

from itertools import combinations, product

import numpy as np


def pool(d):
    """Return the vectors of length sqrt(8) with entries 0, +-1 or 0, +-2, (n, d)."""
    found = []
    for size, entry in ((2, 2), (8, 1)):
        signs = np.array(list(product((-entry, entry), repeat=size)))
        for places in combinations(range(d), size):
            block = np.zeros((len(signs), d), dtype=np.int8)
            block[:, places] = signs
            found.append(block)
    return np.concatenate(found)


def run(program, given):
    """Return vectors, taken from the highest priority on if 60 degrees from all taken before."""
    vectors = pool(given["d"])
    priority = np.asarray(program.priority(vectors.astype(int)), dtype=float)
    if priority.shape != (len(vectors),):
        raise ValueError(f"priority returned shape {priority.shape}, needed is {(len(vectors),)}")
    vectors = vectors[np.argsort(-priority, kind="stable")].astype(np.float32)
    taken = []
    while len(vectors):
        taken.append(vectors[0])
        # Two vectors of length sqrt(8) are 60 degrees apart if their product is at most 4.
        vectors = vectors[vectors @ vectors[0] <= 4]
    return np.array(taken).astype(int)
