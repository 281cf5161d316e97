"""Three inequalities on f * f, each with a constant that a step function bounds.

For f on [-1/4, 1/4] with n equal steps the autoconvolution is linear between its values at the
2n - 1 inner nodes, so that its largest value and its integrals are finite sums of products: exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Task

#: Steps allowed; exact convolution costs the square.
AT_MOST = 600
#: Heights are judged as multiples of the largest over this: the integers stay short.
GRID = 2**40


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the bound that the step function in ``output`` proves.

    Args:
        output: 1 to :data:`AT_MOST` heights, rounded by the judge to :data:`GRID`.
        case: Says which inequality.

    Raises:
        Invalid: If ``output`` is something else, the integral is zero, or a height is negative
            where the inequality asks for f >= 0.
    """
    inequality = case.given["inequality"]
    steps = _integers(output)
    if inequality != 3 and (steps < 0).any():
        raise Invalid("a height is negative, which this inequality does not allow")
    total = int(steps.sum())
    if total == 0:
        raise Invalid("the integral of the function is zero")
    conv = np.convolve(steps, steps)
    peak = int(max(abs(conv)))
    if inequality == 2:
        nodes = [0, *conv, 0]
        integral = sum(a * a + a * b + b * b for a, b in pairwise(nodes))
        bound = Fraction(int(integral), 3 * total**2 * peak)
    else:
        bound = Fraction(2 * len(steps) * peak, total**2)
    largest = max(abs(steps))
    return {
        case.name: float(min(bound, Fraction(10**9))),
        "steps": float(len(steps)),
        "gaps": float(np.mean([1000 * abs(v) < largest for v in steps])),
    }


def _integers(output: Any) -> NDArray[np.object_]:
    try:
        heights = np.asarray(output)
    except ValueError:
        raise Invalid("the answer is not a flat sequence of numbers") from None
    if heights.dtype.kind not in "iuf" or heights.ndim != 1:
        raise Invalid("the answer is not a flat sequence of numbers")
    if not 1 <= len(heights) <= AT_MOST:
        raise Invalid(f"{len(heights)} heights, 1 to {AT_MOST} are allowed")
    heights = heights.astype(np.float64)
    if not np.isfinite(heights).all():
        raise Invalid("a height is not finite")
    largest = np.abs(heights).max()
    if largest == 0:
        raise Invalid("the integral of the function is zero")
    # Division first: the largest float times 2**40 would overflow.
    return np.array([int(v) for v in np.rint(heights / largest * GRID)], dtype=object)


TASK = Task(
    summary="heights(which, n) returns at most n heights of a step function f on [-1/4, 1/4]. For "
    "which = 1 and 3 make max|f*f| / (integral of f)^2 small, with f >= 0 for 1; for which = 2, "
    "f >= 0, make |f*f|_2^2 / (|f*f|_1 |f*f|_inf) large.",
    objectives=[
        Objective("first", 1.5, 2.1, "min"),
        Objective("second", 0.6, 0.965),
        Objective("third", 1.45, 2.1, "min"),
    ],
    descriptors=[
        Descriptor("ast_nodes", 6.5, 9.5, bins=10, unit="log2 nodes"),
        Descriptor("gaps", 0.0, 0.8, bins=10, unit="share of the steps that are nearly 0"),
    ],
    cases=[
        Case(name, {"inequality": number, "at_most": AT_MOST})
        for number, name in enumerate(("first", "second", "third"), start=1)
    ],
    score=score,
    limits=Limits(wall_s=3.0, cpu_s=6.0, memory_mb=1024),
    preload=("numpy", "scipy.optimize"),
    best_known={
        "first": (1.5028629, "TTT-Discover, 2026; AlphaEvolve 1.5031636"),
        "second": (0.9610211, "AlphaEvolve, second version, 2025, with 50,000 steps"),
        "third": (1.4556428, "AlphaEvolve, 2025"),
    },
)
