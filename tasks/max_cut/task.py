"""Maximum cut: two sides for the vertices of a graph, on four kinds of graphs.

The judge adds up the weights of the cut edges, integers all. Each graph is held against its
largest cut, which is known by theory or was found by trying every cut, as the tests do again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import networkx as nx
import numpy as np

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

Edges = list[tuple[int, int, int]]

_SEED = 20250811
#: Graphs of each family.
INSTANCES = 3
#: Sides of the tori.
TORI = ((5, 7), (7, 7), (7, 9))
TRIANGULAR = ((6, 6), (6, 8), (8, 8))


def torus(index: int, _: np.random.Generator) -> Edges:
    """Return a grid on a torus with odd sides p and q.

    Each row and each column is an odd cycle and has an edge that is not cut; colours like those of
    a chessboard lose no other. So the largest cut has 2 p q - p - q edges.
    """
    graph = nx.grid_2d_graph(*TORI[index], periodic=True)
    return [(a, b, 1) for a, b in nx.convert_node_labels_to_integers(graph).edges]


def triangles(index: int, _: np.random.Generator) -> Edges:
    """Return a triangular lattice on a torus with even sides p and q.

    Each of the 2 p q triangles has an edge that is not cut, and each edge is in two of them; rows
    on alternate sides lose no more. So the largest cut has 2 p q of the 3 p q edges.
    """
    p, q = TRIANGULAR[index]
    steps = ((0, 1), (1, 0), (1, 1))
    return [
        (i * q + j, (i + a) % p * q + (j + b) % q, 1)
        for i in range(p)
        for j in range(q)
        for a, b in steps
    ]


def signed(_: int, rng: np.random.Generator) -> Edges:
    """Return a random graph on 21 vertices with half of all edges and weights from -9 to 9."""
    graph = nx.gnp_random_graph(21, 0.5, seed=int(rng.integers(2**31)))
    return [(a, b, int(rng.choice([-1, 1]) * rng.integers(1, 10))) for a, b in graph.edges]


def hubs(_: int, rng: np.random.Generator) -> Edges:
    """Return a graph on 21 vertices with few hubs and weights from 1 to 9."""
    graph = nx.barabasi_albert_graph(21, 4, seed=int(rng.integers(2**31)))
    return [(a, b, int(rng.integers(1, 10))) for a, b in graph.edges]


FAMILIES: dict[str, Callable[[int, np.random.Generator], Edges]] = {
    "torus": torus,
    "triangles": triangles,
    "signed": signed,
    "hubs": hubs,
}
#: Family -> weight of the largest cut of each graph.
LARGEST: dict[str, tuple[int, ...]] = {
    "torus": tuple(2 * p * q - p - q for p, q in TORI),
    "triangles": tuple(2 * p * q for p, q in TRIANGULAR),
    "signed": (115, 63, 160),
    "hubs": (231, 264, 263),
}


def make_graph(family: str, index: int) -> tuple[int, Edges]:
    """Return the number of vertices and the edges (a, b, weight) of a graph."""
    rng = np.random.default_rng([_SEED, list(FAMILIES).index(family), index])
    edges = FAMILIES[family](index, rng)
    n = 1 + max(max(a, b) for a, b, _ in edges)
    name = rng.permutation(n).tolist()
    return n, [(name[a], name[b], w) for a, b, w in edges]


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return by how much the cut in ``output`` misses the largest one, in percent of that.

    Args:
        output: 0 or 1 for every vertex.
        case: Graph and largest cut.

    Raises:
        Invalid: If ``output`` is something else.
    """
    n = case.given["n"]
    try:
        sides = np.asarray(output)
    except ValueError:
        raise Invalid(f"the answer is not a flat sequence of {n} sides") from None
    if sides.dtype.kind not in "iu" or sides.shape != (n,):
        raise Invalid(f"the answer is not a flat sequence of {n} sides, 0 or 1")
    if not ((sides == 0) | (sides == 1)).all():
        raise Invalid("a side is neither 0 nor 1")
    cut = sum(w for a, b, w in case.given["edges"] if sides[a] != sides[b])
    largest = case.hidden["largest"]
    return {
        case.hidden["family"]: 100.0 * (largest - cut) / largest,
        "smaller_side": min(int(sides.sum()), n - int(sides.sum())) / n,
    }


def make_cases() -> list[Case]:
    """Return every graph with the weight of its largest cut."""
    cases = []
    for family, largest in LARGEST.items():
        for index, best in enumerate(largest):
            n, edges = make_graph(family, index)
            hidden = {"family": family, "largest": best}
            cases.append(Case(f"{family}_{index}", {"n": n, "edges": edges}, hidden))
    return cases


_CASES = make_cases()

TASK = Task(
    summary="Cut graphs greedily: preference(left, right, open_weight, degree) is told for the "
    "vertices that are left the weight of their edges to each side and to open vertices, and "
    "their number; it returns an order, the highest comes next, and a preference, above 0 for the "
    "left side. Make the cut heavy on four kinds of graphs.",
    objectives=[
        Objective("torus", 0.0, 30.0, "min", unit="% below the largest cut"),
        Objective("triangles", 0.0, 30.0, "min", unit="% below the largest cut"),
        Objective("signed", 0.0, 50.0, "min", unit="% below the largest cut"),
        Objective("hubs", 0.0, 20.0, "min", unit="% below the largest cut"),
    ],
    descriptors=[
        Descriptor("ast_nodes", 4.5, 8.5, bins=10, unit="log2 nodes"),
        Descriptor("smaller_side", 0.2, 0.5, bins=10, unit="share of the vertices"),
    ],
    cases=_CASES,
    score=score,
    stages=[
        Stage("quick", (_CASES[0].name,)),
        Stage("all", tuple(case.name for case in _CASES[1:])),
    ],
    limits=Limits(wall_s=2.0, cpu_s=4.0, memory_mb=1024),
    best_known=dict.fromkeys(FAMILIES, (0.0, "the largest cut, by theory or by trying all")),
)
