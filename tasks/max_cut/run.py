"""Cuts a graph: the candidate says which vertex is next and which side it goes to."""

import numpy as np


def run(program, given):
    """Return the side of every vertex, 0 or 1.

    Of each vertex that is left the candidate is told the weight of its edges to the vertices on
    the left, on the right, and not placed yet, and its number of edges. It returns an order, whose
    highest comes next, and a preference: above 0 for the left side.
    """
    n = given["n"]
    weight, edge = np.zeros((n, n)), np.zeros((n, n))
    for a, b, w in given["edges"]:
        weight[a, b] = weight[b, a] = w
        edge[a, b] = edge[b, a] = 1
    side = np.full(n, -1)
    degree = edge.sum(axis=1)
    for _ in range(n):
        rest = np.flatnonzero(side < 0)
        to = [weight[rest][:, side == where].sum(axis=1) for where in (0, 1, -1)]
        order, left = program.preference(*to, degree[rest])
        order = np.broadcast_to(np.asarray(order, dtype=float), rest.shape)
        left = np.broadcast_to(np.asarray(left, dtype=float), rest.shape)
        chosen = int(np.argmax(order))
        side[rest[chosen]] = 0 if left[chosen] > 0 else 1
    return side
