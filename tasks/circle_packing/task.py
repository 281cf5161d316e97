"""26 circles in the unit square: the judge, exact to the last bit.

Every answer is brought to a packing that is valid in exact arithmetic, and only that packing is
scored; nothing is forgiven and no figure of the candidate's is believed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Task

Array = NDArray[np.float64]


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the qualities of the packing in ``output``.

    Args:
        output: (x, y, radii), three sequences of n numbers.
        case: Its ``given["n"]`` is the number of circles.

    Raises:
        Invalid: If ``output`` is something else, a centre lies outside the square, or a circle
            would have to vanish for the others to fit.
    """
    n = case.given["n"]
    if not isinstance(output, tuple | list) or len(output) != 3:
        raise Invalid("the answer is not (x, y, radii)")
    x, y, radii = (
        _numbers(part, n, name) for part, name in zip(output, ("x", "y", "radii"), strict=True)
    )
    if outside := [i for i in range(n) if not (0 <= x[i] <= 1 and 0 <= y[i] <= 1)]:
        raise Invalid(f"the centre of circle {outside[0]} lies outside the unit square")
    if negative := [i for i in range(n) if radii[i] < 0]:
        raise Invalid(f"the radius of circle {negative[0]} is negative")
    fitted = fit(x, y, radii)
    mean = math.fsum(fitted) / n
    return {
        "sum_of_radii": math.fsum(fitted),
        "smallest_radius": float(fitted.min()),
        "largest_radius": float(fitted.max()),
        "covered_area": math.pi * math.fsum(fitted * fitted),
        "unevenness": float(fitted.std()) / mean if mean else 0.0,
        "shrunk_by": float(np.max(radii - fitted)),
    }


def fit(x: Array, y: Array, radii: Array) -> Array:
    """Return radii (n,) of a valid packing with the same centres, none larger than ``radii``.

    A valid answer comes back as it is. Otherwise each circle gives up what it protrudes from the
    square, or half of its worst overlap with another if that is more, rounded up.

    Raises:
        Invalid: If a circle is left without a radius.
    """
    clashing = clashes(x, y, radii)
    if not clashing:
        return radii
    protrudes = radii - np.minimum(np.minimum(x, 1 - x), np.minimum(y, 1 - y))
    overlap = radii[:, None] + radii - np.hypot(x[:, None] - x, y[:, None] - y)
    np.fill_diagonal(overlap, 0)
    excess = np.maximum(np.maximum(protrudes, overlap.max(axis=1) / 2), 0)
    fitted: Array = radii - excess
    # What is still too large is so by rounding alone.
    step = 2.0**-54
    while clashing := [i for i in clashes(x, y, np.maximum(fitted, 0)) if fitted[i] > 0]:
        fitted[clashing] -= step
        step *= 2
    for i, radius in enumerate(radii):
        # A circle that was a point to begin with may stay one.
        if fitted[i] < 0 or fitted[i] == 0 < radius:
            raise Invalid(f"circle {i} lies inside another or too far over the edge to be shrunk")
    return fitted


def clashes(x: Array, y: Array, radii: Array) -> list[int]:
    """Return the circles that leave the unit square or overlap another, in exact arithmetic."""
    n = len(x)
    ratios = [float(v).as_integer_ratio() for v in (*x, *y, *radii)]
    # Denominators are powers of two, so the largest is a common one.
    one = max(denominator for _, denominator in ratios)
    exact = [numerator * (one // denominator) for numerator, denominator in ratios]
    xs, ys, rs = exact[:n], exact[n : 2 * n], exact[2 * n :]
    found = {i for i in range(n) for v in (xs[i], ys[i]) if not rs[i] <= v <= one - rs[i]}
    for i, j in combinations(range(n), 2):
        if (xs[i] - xs[j]) ** 2 + (ys[i] - ys[j]) ** 2 < (rs[i] + rs[j]) ** 2:
            found.update((i, j))
    return sorted(found)


def _numbers(part: Any, n: int, name: str) -> Array:
    try:
        values = np.asarray(part)
    except ValueError:
        raise Invalid(f"{name} is not a flat sequence of numbers") from None
    if values.dtype.kind not in "iuf" or values.shape != (n,):
        raise Invalid(f"{name} is not a flat sequence of {n} numbers")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise Invalid(f"{name} holds a number that is not finite")
    return values


TASK = Task(
    summary="Place 26 circles in the unit square, without overlap, so that the sum of their radii "
    "is as large as can be. Besides that count the smallest and the largest radius.",
    objectives=[
        Objective("sum_of_radii", 2.0, 2.64),
        Objective("smallest_radius", 0.05, 0.0964),
        # A quarter is enough: beyond it one circle pushes all others into the corners.
        Objective("largest_radius", 0.08, 0.25),
    ],
    descriptors=[
        Descriptor("ast_nodes", 7.5, 10.0, bins=10, unit="log2 nodes"),
        Descriptor("unevenness", 0.0, 0.8, bins=10, unit="spread / mean of the radii"),
    ],
    cases=[Case("square_26", {"n": 26})],
    score=score,
    limits=Limits(wall_s=3.0, cpu_s=3.0, memory_mb=1024),
    preload=("numpy", "scipy.optimize"),
    best_known={
        "sum_of_radii": (2.6359830774, "ThetaEvolve, 2025, data checked at zero tolerance"),
        "smallest_radius": (0.0963, "26 equal circles, E. Specht, packomania.com"),
    },
)
