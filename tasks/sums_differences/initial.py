"""A finite set of whole numbers with many differences and few sums."""

import numpy as np


# EVOLVE-BLOCK-START
def numbers(limit):
    dims = 3
    base = 9
    steps = base ** np.arange(dims)
    found = np.array([0])
    for _ in range(12):
        grown = found[:, None] + steps
        more = np.unique(np.append(found, grown))
        if len(more) > limit:
            break
        found = more
    room = limit - len(found)
    extra = found[-1] + steps[-1] * np.arange(1, 4)
    return np.append(found, extra[: min(room, 3)])


# EVOLVE-BLOCK-END
