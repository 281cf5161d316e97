"""Packs the items one by one: a candidate is told this item and the room in the bins it fits."""

import numpy as np


def run(program, given):
    """Return the bin of every item, numbered in the order in which the bins were opened.

    Offered are the open bins with enough room, oldest first, and after them one empty bin.
    """
    capacity = given["capacity"]
    items = given["items"]
    room = np.full(len(items) + 1, float(capacity))
    opened = 0
    taken = []
    for item in items:
        fits = np.flatnonzero(room[: opened + 1] >= item)
        score = np.asarray(program.priority(float(item), room[fits]), dtype=float)
        if score.shape != fits.shape:
            raise ValueError(f"priority returned shape {score.shape}, needed is {fits.shape}")
        chosen = int(fits[np.argmax(score)])
        room[chosen] -= item
        opened = max(opened, chosen + 1)
        taken.append(chosen)
    return taken
