"""Builds a cap set greedily in the order of the candidate's scores."""

import numpy as np


def run(program, given):
    """Return the chosen vectors of F_3^n, each as its number in base 3.

    The highest score goes first, the smaller number among equals. Every choice blocks the vectors
    that would complete a line with it and an earlier one: the third point is -(a + b) mod 3.
    """
    n = given["n"]
    powers = 3 ** np.arange(n)
    vectors = np.arange(3**n)[:, None] // powers % 3
    scores = np.asarray(program.priority(vectors.copy(), n), dtype=float)
    if scores.shape != (3**n,):
        raise ValueError(f"priority returned shape {scores.shape}, needed is ({3**n},)")
    blocked = np.zeros(3**n, dtype=bool)
    chosen = np.empty(0, dtype=int)
    for number in np.argsort(-scores, kind="stable"):
        if not blocked[number]:
            third = (-(vectors[chosen] + vectors[number])) % 3 @ powers
            blocked[third] = True
            chosen = np.append(chosen, number)
    return chosen
