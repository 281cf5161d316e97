"""Colours a graph vertex by vertex in the order that the candidate's priorities give."""

import numpy as np


def run(program, given):
    """Return the colour of every vertex.

    The vertex of highest priority comes next, the smallest number among equals, and takes the
    first colour that none of its neighbours has. The candidate is told of each vertex that is left
    how many colours are taken around it, how many neighbours it has, and how many of those are
    left.
    """
    n = given["n"]
    adjacent = np.zeros((n, n), dtype=bool)
    for a, b in given["edges"]:
        adjacent[a, b] = adjacent[b, a] = True
    taken = np.zeros((n, n), dtype=bool)
    degree = adjacent.sum(axis=1)
    saturation, open_degree = np.zeros(n, dtype=int), degree.copy()
    colours = np.zeros(n, dtype=int)
    left = np.arange(n)
    while len(left):
        score = program.priority(saturation[left], degree[left], open_degree[left])
        score = np.asarray(score, dtype=float)
        if score.shape != left.shape:
            raise ValueError(f"priority returned shape {score.shape}, needed is {left.shape}")
        vertex = left[np.argmax(score)]
        colour = np.argmin(taken[vertex])
        colours[vertex] = colour
        around = adjacent[vertex]
        saturation += around & ~taken[:, colour]
        taken[around, colour] = True
        open_degree[around] -= 1
        left = left[left != vertex]
    return colours
