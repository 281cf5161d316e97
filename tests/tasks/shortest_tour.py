"""Shortest tours, proved so: the degree relaxation with cuts for every subtour that comes up.

Dantzig, Fulkerson and Johnson, "Solution of a large-scale traveling-salesman problem", 1954, with
HiGHS for the integer programs. Printed as the table in ``tasks/tsp/task.py``:

    python -m tests.tasks.shortest_tour
"""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array


def shortest_tour(cities: np.ndarray) -> list[int]:
    """Return a closed tour through ``cities`` (n, 2) than which none is shorter."""
    n = len(cities)
    i, j = np.triu_indices(n, 1)
    lengths = np.hypot(*(cities[i] - cities[j]).T.astype(float))
    rows = [np.flatnonzero((i == city) | (j == city)) for city in range(n)]
    low, high = [2.0] * n, [2.0] * n
    while True:
        matrix = csr_array(
            (
                np.ones(sum(map(len, rows))),
                np.concatenate(rows),
                np.cumsum([0, *map(len, rows)]),
            ),
            shape=(len(rows), len(lengths)),
        )
        solved = milp(
            lengths,
            integrality=np.ones(len(lengths)),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, low, high),
            options={"mip_rel_gap": 0.0},
        )
        used = np.flatnonzero(solved.x > 0.5)
        graph = nx.Graph(zip(i[used].tolist(), j[used].tolist(), strict=True))
        parts = list(nx.connected_components(graph))
        if len(parts) == 1:
            return list(nx.dfs_preorder_nodes(graph, 0))
        for part in parts:
            inside = np.isin(i, list(part)) & np.isin(j, list(part))
            rows.append(np.flatnonzero(inside))
            low.append(-np.inf)
            high.append(len(part) - 1.0)


def length_of(cities: np.ndarray, tour: list[int]) -> float:
    """Return the length of a closed tour."""
    return math.fsum(
        math.dist(cities[a], cities[b]) for a, b in zip(tour, tour[1:] + tour[:1], strict=True)
    )


if __name__ == "__main__":
    from tasks.tsp.task import FAMILIES, INSTANCES, make_cities

    for family in FAMILIES:
        found = []
        for index in range(INSTANCES):
            cities = make_cities(family, index)
            length = length_of(cities, shortest_tour(cities))
            found.append(f"{math.floor(1e6 * length) / 1e6:.6f}")
        print(f'    "{family}": ({", ".join(found)}),', flush=True)
