"""Few distances: n points whose largest and smallest distance differ as little as can be.

Nothing can be invalid here but coinciding points, and the ratio is worked out in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Task


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the squared ratio of the largest to the smallest distance of the points in ``output``.

    Args:
        output: (n, d) numbers.
        case: Says n and d.

    Raises:
        Invalid: If ``output`` is something else, or two points coincide.
    """
    n, d = case.given["n"], case.given["d"]
    try:
        points = np.asarray(output)
    except ValueError:
        raise Invalid(f"the answer is not an array of shape ({n}, {d})") from None
    if points.dtype.kind not in "iuf" or points.shape != (n, d):
        raise Invalid(f"the answer is not an array of numbers of shape ({n}, {d})")
    points = points.astype(np.float64)
    if not np.isfinite(points).all():
        raise Invalid("a coordinate is not finite")
    ratios = [[float(v).as_integer_ratio() for v in point] for point in points]
    # Denominators are powers of two, so the largest is a common one; it cancels in the ratio.
    one = max(denominator for point in ratios for _, denominator in point)
    exact = [[numerator * (one // denominator) for numerator, denominator in p] for p in ratios]
    squares: list[int] = [
        sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for p, q in combinations(exact, 2)
    ]
    low, high = min(squares), max(squares)
    if low == 0:
        raise Invalid("two points coincide")
    # The share of pairs within a thousandth of either extreme: how much of the figure is rigid.
    tight = sum(1000 * s <= 1002 * low or 1000 * s >= 998 * high for s in squares)
    # Beyond the ranges any larger figure is as good; it keeps hostile ones within a float.
    ratio = float(min(Fraction(high, low), Fraction(10**9)))
    return {f"ratio_{n}_{d}": ratio, "tight_pairs": tight / len(squares)}


TASK = Task(
    summary="points(n, d) returns n points in d dimensions. Make the ratio of the largest to the "
    "smallest distance between two of them small, for 16 points in the plane, 14 in space and 20 "
    "in four dimensions.",
    objectives=[
        Objective("ratio_16_2", 12.8, 20.0, "min", unit="(max/min)^2"),
        Objective("ratio_14_3", 4.1, 9.0, "min", unit="(max/min)^2"),
        Objective("ratio_20_4", 3.4, 9.0, "min", unit="(max/min)^2"),
    ],
    descriptors=[
        Descriptor("ast_nodes", 6.5, 9.5, bins=10, unit="log2 nodes"),
        Descriptor("tight_pairs", 0.0, 0.6, bins=10, unit="share of the pairs"),
    ],
    cases=[Case(f"points_{n}_{d}", {"n": n, "d": d}) for n, d in ((16, 2), (14, 3), (20, 4))],
    score=score,
    limits=Limits(wall_s=3.0, cpu_s=6.0, memory_mb=1024),
    preload=("numpy", "scipy.optimize"),
    best_known={
        "ratio_16_2": (
            12.8892299077,
            "rebuilt, in the tests; in print 12.8892379, CodeEvolve 2025",
        ),
        "ratio_14_3": (4.1657834746, "rebuilt, in the tests; in print 4.1657884, CodeEvolve 2025"),
        "ratio_20_4": (3.514273, "a short search with SLSQP; nothing in print"),
    },
)
