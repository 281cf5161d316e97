"""Builds a tour by insertion: the candidate says which city is next, the place is the cheapest."""

import numpy as np


def run(program, given):
    """Return a tour, the numbers of all cities in order.

    It starts from the two cities farthest apart. Of each city outside the tour the candidate is
    told how much longer the tour gets with it, how far the nearest city of the tour is, how far
    the middle of all cities is, and which share of the cities is in the tour; the highest priority
    comes in, at the place where it costs least.
    """
    at = np.array(given["cities"], dtype=float)
    apart = np.hypot(*(at[:, None] - at).transpose(2, 0, 1))
    centre = np.hypot(*(at - at.mean(axis=0)).T)
    tour = [int(v) for v in np.unravel_index(np.argmax(apart), apart.shape)]
    left = np.setdiff1d(np.arange(len(at)), tour)
    while len(left):
        here = np.array(tour)
        after = np.roll(here, -1)
        longer = apart[left][:, here] + apart[left][:, after] - apart[here, after]
        nearest = apart[left][:, here].min(axis=1)
        done = len(tour) / len(at)
        score = program.priority(longer.min(axis=1), nearest, centre[left], done)
        score = np.asarray(score, dtype=float)
        if score.shape != left.shape:
            raise ValueError(f"priority returned shape {score.shape}, needed is {left.shape}")
        chosen = int(np.argmax(score))
        tour.insert(int(np.argmin(longer[chosen])) + 1, int(left[chosen]))
        left = np.delete(left, chosen)
    return tour
