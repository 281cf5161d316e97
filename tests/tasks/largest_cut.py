"""The largest cut of a small graph, by trying all of them: `python -m tests.tasks.largest_cut`."""

import numpy as np


def largest_cut(n: int, edges: list[tuple[int, int, int]]) -> int:
    """Return the largest weight over the 2^(n - 1) cuts; vertex n - 1 stays on side 0."""
    cuts = np.arange(2 ** (n - 1), dtype=np.int32)
    weight = np.zeros(len(cuts), dtype=np.int16)
    for a, b, w in edges:
        weight += w * ((cuts >> a ^ cuts >> b) & 1).astype(np.int16)
    return int(weight.max())


if __name__ == "__main__":
    from tasks.max_cut.task import INSTANCES, make_graph

    for family in ("signed", "hubs"):
        found = [largest_cut(*make_graph(family, index)) for index in range(INSTANCES)]
        print(f'    "{family}": {tuple(found)},')
