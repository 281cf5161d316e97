"""The travelling salesman: which city to insert next, on four kinds of maps.

The judge checks that every city comes once and measures the tour. It is held against the shortest
tour of each map, listed below; the tests find these again and prove them shortest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

Cities = NDArray[np.int64]

_SEED = 20250903
_N = 60
#: Maps of each family.
INSTANCES = 2


def uniform(rng: np.random.Generator) -> Cities:
    """Return cities anywhere in a square."""
    return rng.integers(0, 1000, (_N, 2))


def clusters(rng: np.random.Generator) -> Cities:
    """Return cities around six centres."""
    centres = rng.integers(100, 900, (6, 2))
    return np.rint(centres[rng.integers(0, 6, _N)] + rng.normal(0, 40, (_N, 2))).astype(np.int64)


def lattice(rng: np.random.Generator) -> Cities:
    """Return the corners of a lattice, each a little off its place."""
    rows, columns = np.divmod(np.arange(_N), 10)
    corners: Cities = np.stack([100 * columns, 100 * rows], axis=1)
    return corners + rng.integers(-25, 26, (_N, 2))


def ring(rng: np.random.Generator) -> Cities:
    """Return cities on two thick rings around one centre."""
    turn = rng.uniform(0, 2 * np.pi, _N)
    radius = np.where(np.arange(_N) % 2 == 0, 450, 220) + rng.normal(0, 25, _N)
    points = np.rint(radius[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1))
    whole: Cities = points.astype(np.int64)
    return whole


FAMILIES: dict[str, Callable[[np.random.Generator], Cities]] = {
    "uniform": uniform,
    "clusters": clusters,
    "lattice": lattice,
    "ring": ring,
}
#: Family -> length of the shortest tour of each map, rounded down.
SHORTEST: dict[str, tuple[float, ...]] = {
    "uniform": (6096.879757, 6104.075943),
    "clusters": (3214.430398, 3090.581844),
    "lattice": (5579.583934, 5645.212928),
    "ring": (5005.266176, 4837.844008),
}


def make_cities(family: str, index: int) -> Cities:
    """Return the cities of one map, (60, 2)."""
    number = list(FAMILIES).index(family)
    return FAMILIES[family](np.random.default_rng([_SEED, number, index]))


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return how much longer than the shortest tour the one in ``output`` is, in percent.

    Args:
        output: The cities in order; the tour is closed.
        case: Cities and the length of their shortest tour.

    Raises:
        Invalid: If ``output`` is something else, or a city is missing or comes twice.
    """
    cities = case.given["cities"]
    if not isinstance(output, list) or not all(type(city) is int for city in output):
        raise Invalid("the answer is not a list of city numbers")
    if sorted(output) != list(range(len(cities))):
        raise Invalid(f"the answer does not hold each of the {len(cities)} cities once")
    steps = [
        math.dist(cities[a], cities[b])
        for a, b in zip(output, [*output[1:], output[0]], strict=True)
    ]
    shortest = case.hidden["shortest"]
    return {
        case.hidden["family"]: 100 * (math.fsum(steps) - shortest) / shortest,
        "longest_step": max(steps) / (math.fsum(steps) / len(steps)),
    }


def make_cases() -> list[Case]:
    """Return every map with the length of its shortest tour."""
    return [
        Case(
            f"{family}_{index}",
            {"cities": make_cities(family, index).tolist()},
            {"family": family, "shortest": shortest},
        )
        for family, lengths in SHORTEST.items()
        for index, shortest in enumerate(lengths)
    ]


_CASES = make_cases()

TASK = Task(
    summary="Travelling salesman by insertion: priority(longer, nearest, centre, done) scores the "
    "cities outside the tour by what each adds to it at the best place, the distance of the "
    "nearest city in it and of the middle of the map, and the share of cities in it; the highest "
    "comes in next. Make short tours on four kinds of maps.",
    objectives=[
        Objective(family, 0.0, 25.0, "min", unit="% over the shortest") for family in FAMILIES
    ],
    descriptors=[
        Descriptor("ast_nodes", 5.0, 9.0, bins=10, unit="log2 nodes"),
        Descriptor("longest_step", 2.0, 6.0, bins=10, unit="times the mean step"),
    ],
    cases=_CASES,
    score=score,
    stages=[
        Stage("quick", (_CASES[0].name,)),
        Stage("all", tuple(case.name for case in _CASES[1:])),
    ],
    limits=Limits(wall_s=2.0, cpu_s=4.0, memory_mb=1024),
    best_known=dict.fromkeys(FAMILIES, (0.0, "the shortest tour, proved by integer programming")),
)
