"""Heilbronn's problem: points of which no three span a small triangle.

The figure judged is free of scale and place: the smallest triangle as a share of what encloses the
points, the smallest triangle of a given form or the convex hull. So there is no border to miss, and
all of it is worked out in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Task

Point = tuple[int, int]


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the smallest triangle's share of the area, for the points in ``output``.

    Args:
        output: (x, y), two sequences of n numbers.
        case: Says n and the shape. "triangle": the right triangle with legs along the axes; by an
            affine map it stands for any triangle. "convex": the convex hull of the points.

    Raises:
        Invalid: If ``output`` is something else, or all points lie on a line.
    """
    n, shape = case.given["n"], case.given["shape"]
    points = _exact(output, n)
    ring = hull(points)
    enclosing = twice_area(ring)
    if enclosing == 0:
        raise Invalid("all points lie on a line")
    if shape == "triangle":
        leg = max(x + y for x, y in points) - min(x for x, _ in points)
        enclosing = (leg - min(y for _, y in points)) ** 2
    smallest = min(abs(cross(a, b, c)) for a, b, c in combinations(points, 3))
    return {case.name: float(Fraction(smallest, enclosing)), "on_hull": len(ring) / n}


def cross(a: Point, b: Point, c: Point) -> int:
    """Return twice the signed area of a triangle."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])


def hull(points: Sequence[Point]) -> list[Point]:
    """Return the corners of the convex hull, counter-clockwise (Andrew's monotone chain, 1979)."""
    rest = sorted(set(points))
    ring: list[Point] = []
    for side in (rest, rest[::-1]):
        chain: list[Point] = []
        for point in side:
            while len(chain) > 1 and cross(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        ring += chain[:-1]
    return ring


def twice_area(ring: Sequence[Point]) -> int:
    """Return twice the area of a polygon, positive if its corners run counter-clockwise."""
    return sum(a[0] * b[1] - a[1] * b[0] for a, b in zip(ring, [*ring[1:], *ring[:1]], strict=True))


def _exact(output: Any, n: int) -> list[Point]:
    """Return the points as integers, all scaled by one power of two: shares stay what they are."""
    if not isinstance(output, tuple | list) or len(output) != 2:
        raise Invalid("the answer is not (x, y)")
    columns = []
    for name, part in zip("xy", output, strict=True):
        try:
            values = np.asarray(part)
        except ValueError:
            raise Invalid(f"{name} is not a flat sequence of {n} numbers") from None
        if values.dtype.kind not in "iuf" or values.shape != (n,):
            raise Invalid(f"{name} is not a flat sequence of {n} numbers")
        if not np.isfinite(values).all():
            raise Invalid(f"{name} holds a number that is not finite")
        columns.append([float(v).as_integer_ratio() for v in values])
    one = max(denominator for column in columns for _, denominator in column)
    x, y = ([numerator * (one // den) for numerator, den in column] for column in columns)
    return list(zip(x, y, strict=True))


TASK = Task(
    summary="Heilbronn's problem: points(n, shape) returns x, y of n points. Make the smallest of "
    "all triangles of three points large, as a share of the right triangle around 11 points or of "
    "the convex hull of 13 and 14 points.",
    objectives=[
        Objective("triangle_11", 0.0, 0.037, unit="of the triangle"),
        Objective("convex_13", 0.0, 0.0315, unit="of the hull"),
        Objective("convex_14", 0.0, 0.0283, unit="of the hull"),
    ],
    descriptors=[
        Descriptor("ast_nodes", 8.5, 10.5, bins=10, unit="log2 nodes"),
        Descriptor("on_hull", 0.2, 0.9, bins=10, unit="share of the points"),
    ],
    cases=[
        Case("triangle_11", {"n": 11, "shape": "triangle"}),
        Case("convex_13", {"n": 13, "shape": "convex"}),
        Case("convex_14", {"n": 14, "shape": "convex"}),
    ],
    score=score,
    limits=Limits(wall_s=3.0, cpu_s=6.0, memory_mb=1024),
    preload=("numpy", "scipy.optimize"),
    best_known={
        "triangle_11": (0.0365299, "AlphaEvolve, 2025"),
        "convex_13": (0.0309369, "AlphaEvolve, 2025"),
        "convex_14": (0.0278356, "AlphaEvolve, 2025"),
    },
)
