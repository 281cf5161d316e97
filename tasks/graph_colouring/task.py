"""Graph colouring: an order of vertices for a greedy colourer, on four kinds of graphs.

The judge checks every edge. What a colouring is measured against is known exactly: a theorem, a
colouring that was hidden in the graph, or the largest clique.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product
from typing import Any

import numpy as np

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

Edges = list[tuple[int, int]]

_SEED = 20250717
#: Side of the board -> chromatic number of the queen graph (M. Vasquez, 2004; OEIS A088202).
QUEENS = {6: 7, 7: 7, 8: 9, 9: 10}
#: (n, k) of Kneser graphs, whose chromatic number is n - 2k + 2 (L. Lovász, 1978).
KNESER = ((8, 2), (10, 2), (7, 3), (9, 3))
#: Hidden classes -> (vertices in each, chance of an edge between two of different classes).
PLANTED = {4: (25, 0.15), 5: (18, 0.25), 6: (15, 0.35), 8: (12, 0.45)}
#: Vertices of random graphs with half of all edges, and the sizes of their largest cliques.
RANDOM_N, CLIQUES = 60, (8, 8, 8)


def queens(side: int) -> tuple[int, Edges]:
    """Return the squares of a board, joined where a queen moves from one to the other."""
    squares = list(product(range(side), repeat=2))
    edges = [
        (i, j)
        for (i, (a, b)), (j, (c, d)) in combinations(enumerate(squares), 2)
        if a == c or b == d or abs(a - c) == abs(b - d)
    ]
    return len(squares), edges


def kneser(n: int, k: int) -> tuple[int, Edges]:
    """Return the k-subsets of n things, joined where they have nothing in common."""
    sets = [set(s) for s in combinations(range(n), k)]
    pairs = combinations(range(len(sets)), 2)
    return len(sets), [(i, j) for i, j in pairs if not sets[i] & sets[j]]


def planted(classes: int, rng: np.random.Generator) -> tuple[int, Edges]:
    """Return a random graph that can be coloured with ``classes`` colours."""
    each, chance = PLANTED[classes]
    pairs = combinations(range(classes * each), 2)
    return classes * each, [
        (i, j) for i, j in pairs if i % classes != j % classes and rng.random() < chance
    ]


def random_graph(rng: np.random.Generator) -> tuple[int, Edges]:
    """Return a graph on :data:`RANDOM_N` vertices, each pair joined with chance 1/2."""
    return RANDOM_N, [pair for pair in combinations(range(RANDOM_N), 2) if rng.random() < 0.5]


def make_cases() -> list[Case]:
    """Return every graph, its vertices shuffled, with the number of colours it is held against."""
    graphs: list[tuple[str, int, tuple[int, Edges]]] = []
    graphs += [("queens", best, queens(side)) for side, best in QUEENS.items()]
    graphs += [("kneser", n - 2 * k + 2, kneser(n, k)) for n, k in KNESER]
    for k in PLANTED:
        graphs.append(("planted", k, planted(k, np.random.default_rng([_SEED, 0, k]))))
    for i, clique in enumerate(CLIQUES):
        graphs.append(("random", clique, random_graph(np.random.default_rng([_SEED, 1, i]))))
    cases = []
    for index, (family, bound, (n, edges)) in enumerate(graphs):
        name = np.random.default_rng([_SEED, 2, index]).permutation(n).tolist()
        given = {"n": n, "edges": [(name[a], name[b]) for a, b in edges]}
        cases.append(Case(f"{family}_{index}", given, {"family": family, "bound": bound}))
    return cases


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return how many more colours than the bound are used, in percent of the bound.

    Args:
        output: The colour of every vertex, any integer.
        case: Graph and bound.

    Raises:
        Invalid: If ``output`` is something else, or two neighbours have the same colour.
    """
    n = case.given["n"]
    try:
        colours = np.asarray(output)
    except ValueError:
        raise Invalid(f"the answer is not a flat sequence of {n} integers") from None
    if colours.dtype.kind not in "iu" or colours.shape != (n,):
        raise Invalid(f"the answer is not a flat sequence of {n} integers")
    for a, b in case.given["edges"]:
        if colours[a] == colours[b]:
            raise Invalid(f"the neighbours {a} and {b} have the same colour")
    sizes = np.unique(colours, return_counts=True)[1]
    bound = case.hidden["bound"]
    return {
        case.hidden["family"]: 100.0 * (len(sizes) - bound) / bound,
        "largest_class": float(sizes.max() * len(sizes) / n),
    }


_CASES = make_cases()

TASK = Task(
    summary="Colour graphs greedily: priority(saturation, degree, open_degree) scores the vertices "
    "that are left by the colours taken around them, their neighbours, and those that are left "
    "too; the highest comes next and takes the first free colour. Use few colours on four kinds of "
    "graphs.",
    objectives=[
        Objective("queens", 0.0, 60.0, "min", unit="% over the chromatic number"),
        Objective("kneser", 0.0, 40.0, "min", unit="% over the chromatic number"),
        Objective("planted", 0.0, 100.0, "min", unit="% over the hidden colouring"),
        Objective("random", 30.0, 100.0, "min", unit="% over the largest clique"),
    ],
    descriptors=[
        Descriptor("ast_nodes", 4.5, 8.5, bins=10, unit="log2 nodes"),
        Descriptor("largest_class", 1.2, 2.2, bins=10, unit="times the mean"),
    ],
    cases=_CASES,
    score=score,
    stages=[
        Stage("quick", tuple(c.name for c in _CASES if c.hidden["family"] == "kneser")),
        Stage("all", tuple(c.name for c in _CASES if c.hidden["family"] != "kneser")),
    ],
    limits=Limits(wall_s=2.0, cpu_s=4.0, memory_mb=1024),
    best_known={
        "queens": (0.0, "chromatic numbers, M. Vasquez, 2004"),
        "kneser": (0.0, "chromatic numbers, L. Lovász, 1978"),
        "planted": (0.0, "the colouring that the graphs were made with"),
    },
)
