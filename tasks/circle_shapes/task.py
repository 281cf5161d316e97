"""Circles in a square and in a rectangle of perimeter 4: the judge, exact to the last bit.

The rectangle is as wide as the answer says; its height is 2 minus that, exactly. Every answer is
brought to a packing that is valid in exact arithmetic, and only that packing is scored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

Array = NDArray[np.float64]


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the qualities of the packing in ``output``.

    Args:
        output: (width, x, y, radii): a number and three sequences of n numbers.
        case: Says n and the shape, "square" or "rectangle".

    Raises:
        Invalid: If ``output`` is something else, a centre lies outside, or a circle would have to
            vanish for the others to fit.
    """
    n, shape = case.given["n"], case.given["shape"]
    if not isinstance(output, tuple | list) or len(output) != 4:
        raise Invalid("the answer is not (width, x, y, radii)")
    width = float(_numbers([output[0]], 1, "width")[0])
    if shape == "square" and width != 1.0:
        raise Invalid(f"the width is {width}, a square of perimeter 4 has 1")
    if not 0 < width < 2:
        raise Invalid(f"the width is {width}, between 0 and 2 is needed")
    x, y, radii = (
        _numbers(part, n, name) for part, name in zip(output[1:], ("x", "y", "radii"), strict=True)
    )
    if negative := [i for i in range(n) if radii[i] < 0]:
        raise Invalid(f"the radius of circle {negative[0]} is negative")
    if outside := clashes(width, x, y, np.zeros(n), walls_only=True):
        raise Invalid(f"the centre of circle {outside[0]} lies outside")
    fitted = fit(width, x, y, radii)
    mean = math.fsum(fitted) / n
    return {
        case.name: math.fsum(fitted),
        "evenness": float(fitted.min()) / mean if mean else 0.0,
        "shrunk_by": float(np.max(radii - fitted)),
        f"width_{case.name}": width,
    }


def fit(width: float, x: Array, y: Array, radii: Array) -> Array:
    """Return radii (n,) of a valid packing with the same centres, none larger than ``radii``.

    A valid answer comes back as it is. Otherwise each circle gives up what it protrudes, or half
    of its worst overlap with another if that is more, rounded up.

    Raises:
        Invalid: If a circle is left without a radius.
    """
    if not clashes(width, x, y, radii):
        return radii
    wall = np.minimum(np.minimum(x, width - x), np.minimum(y, (2 - width) - y))
    overlap = radii[:, None] + radii - np.hypot(x[:, None] - x, y[:, None] - y)
    np.fill_diagonal(overlap, 0)
    excess = np.maximum(np.maximum(radii - wall, overlap.max(axis=1) / 2), 0)
    fitted: Array = radii - excess
    # What is still too large is so by rounding alone.
    step = 2.0**-54
    while clashing := [i for i in clashes(width, x, y, np.maximum(fitted, 0)) if fitted[i] > 0]:
        fitted[clashing] -= step
        step *= 2
    for i, radius in enumerate(radii):
        # A circle that was a point to begin with may stay one.
        if fitted[i] < 0 or fitted[i] == 0 < radius:
            raise Invalid(f"circle {i} lies inside another or too far over the edge to be shrunk")
    return fitted


def clashes(
    width: float, x: Array, y: Array, radii: Array, *, walls_only: bool = False
) -> list[int]:
    """Return the circles that leave the rectangle or overlap another, in exact arithmetic."""
    n = len(x)
    ratios = [float(v).as_integer_ratio() for v in (width, *x, *y, *radii)]
    # Denominators are powers of two, so the largest is a common one.
    one = max(denominator for _, denominator in ratios)
    wide, *exact = [numerator * (one // denominator) for numerator, denominator in ratios]
    high = 2 * one - wide
    xs, ys, rs = exact[:n], exact[n : 2 * n], exact[2 * n :]
    found = {
        i
        for i in range(n)
        if not (rs[i] <= xs[i] <= wide - rs[i] and rs[i] <= ys[i] <= high - rs[i])
    }
    if not walls_only:
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
    summary="pack(n, shape) returns (width, x, y, radii) of n circles without overlap in a "
    "rectangle of that width and height 2 - width. Make the sum of the radii large for 32 circles "
    "in the unit square and for 21 in a rectangle of any width, and the smallest circle not much "
    "smaller than the mean.",
    objectives=[
        Objective("square_32", 2.2, 2.95),
        Objective("rectangle_21", 1.8, 2.37),
        Objective("evenness", 0.3, 1.0, unit="smallest / mean radius"),
    ],
    descriptors=[
        Descriptor("ast_nodes", 7.5, 10.0, bins=10, unit="log2 nodes"),
        Descriptor("width_rectangle_21", 0.7, 1.3, bins=10),
    ],
    cases=[
        Case("square_32", {"n": 32, "shape": "square"}),
        Case("rectangle_21", {"n": 21, "shape": "rectangle"}),
    ],
    score=score,
    stages=[Stage("rectangle", ("rectangle_21",)), Stage("square", ("square_32",))],
    limits=Limits(wall_s=3.0, cpu_s=6.0, memory_mb=1024),
    preload=("numpy", "scipy.optimize"),
    best_known={
        "square_32": (2.9395724996, "TTT-Discover, 2026, violated by 9e-16; AlphaEvolve 2.9379445"),
        "rectangle_21": (
            2.3658323759,
            "CodeEvolve, 2025, violated by 7e-11; AlphaEvolve 2.3658321",
        ),
        "evenness": (1.0, "equal circles"),
    },
)
