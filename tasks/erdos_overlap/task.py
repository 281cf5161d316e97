"""Erdos' minimum overlap: a density on [0, 2] that meets its complement little at every shift.

For h with values in [0, 1] and integral 1, the largest of the integrals of h(x) (1 - h(x + k)) over
all shifts k bounds the constant from above (Haugland 1996, after Swinnerton-Dyer), where both
factors count as 0 outside of [0, 2]. For n equal steps the integral is linear between shifts by
whole steps, so the largest is one of 2n - 1 sums of products: exact in integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

#: Objective -> steps; with 0 and 1 as the only heights in the last one.
STEPS = {"few_steps": 12, "many_steps": 200, "sets": 60}
#: Heights are judged as multiples of 1 over this: the integers stay short.
GRID = 2**30


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the bound that the step function in ``output`` proves.

    Args:
        output: As many heights as steps; what is outside of [0, 1] is refused, and what does not
            add up to half of the steps is moved until it does.
        case: Its name is the objective. "sets": the heights are rounded to 0 and 1, which is
            Erdos' own problem: two sets of n/2 whole numbers each, of which no difference may
            come often.

    Raises:
        Invalid: If ``output`` is something else.
    """
    n = case.given["steps"]
    wanted = _heights(output, n)
    whole = case.name == "sets"
    units = halves(wanted) if whole else balanced(wanted)
    one = 1 if whole else GRID
    return {
        case.name: rounded_up(overlap(units, one)),
        "flatness": float(np.mean(np.abs(np.diff(wanted)))) * n,
        f"moved_{case.name}": float(np.max(np.abs(units.astype(float) / one - wanted))),
    }


def overlap(units: NDArray[np.object_], one: int) -> Fraction:
    """Return the largest integral over all shifts, for heights of ``units / one``."""
    products = np.correlate(units, one - units, "full")
    return Fraction(2 * int(products.max()), len(units) * one * one)


def balanced(heights: NDArray[np.float64]) -> NDArray[np.object_]:
    """Return heights in units of 1 / GRID that add up to half of the steps exactly.

    They are scaled down to it, or their distances from 1 are; what rounding leaves is given to the
    first that have room.
    """
    n = len(heights)
    units = np.array([int(v) for v in np.rint(heights * GRID)], dtype=object)
    target = n * GRID // 2
    total = int(units.sum())
    if total < target:
        # The complement has too much.
        raised: NDArray[np.object_] = GRID - _lowered(GRID - units, n * GRID - target)
        return raised
    return _lowered(units, target)


def _lowered(units: NDArray[np.object_], target: int) -> NDArray[np.object_]:
    total = int(units.sum())
    if total == target:
        return units
    lowered = np.array([int(u) * target // total for u in units], dtype=object)
    missing = target - int(lowered.sum())
    for i in np.flatnonzero(lowered < units)[:missing]:
        lowered[i] += 1
    return lowered


def halves(heights: NDArray[np.float64]) -> NDArray[np.object_]:
    """Return 1 for the higher half of the steps and 0 for the others; ties go to earlier steps."""
    n = len(heights)
    chosen = np.argsort(-heights, kind="stable")[: n // 2]
    units = np.zeros(n, dtype=object)
    units[chosen] = 1
    return units


def rounded_up(exact: Fraction) -> float:
    """Return the smallest float that is not below a fraction."""
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


def _heights(output: Any, n: int) -> NDArray[np.float64]:
    try:
        values = np.asarray(output)
    except ValueError:
        raise Invalid(f"the answer is not a flat sequence of {n} numbers") from None
    if values.dtype.kind not in "iuf" or values.shape != (n,):
        raise Invalid(f"the answer is not a flat sequence of {n} numbers")
    heights: NDArray[np.float64] = values.astype(np.float64)
    if not np.isfinite(heights).all():
        raise Invalid("a height is not finite")
    if not ((heights >= 0) & (heights <= 1)).all():
        raise Invalid("a height lies outside 0..1")
    return heights


TASK = Task(
    summary="heights(n) returns n heights in [0, 1] with mean 1/2, a step function h on [0, 2]. "
    "Make max over k of the integral of h(x) (1 - h(x + k)) small, for 12 steps, for 200, and "
    "for 60 that the judge rounds to 0 and 1.",
    objectives=[
        Objective("few_steps", 0.36, 0.5, "min"),
        Objective("many_steps", 0.37, 0.5, "min"),
        Objective("sets", 0.36, 0.7, "min"),
    ],
    descriptors=[
        Descriptor("ast_nodes", 6.0, 9.5, bins=10, unit="log2 nodes"),
        Descriptor("flatness", 0.0, 20.0, bins=10, unit="sum of the jumps"),
    ],
    cases=[Case(name, {"steps": steps}) for name, steps in STEPS.items()],
    score=score,
    stages=[Stage("short", ("few_steps", "sets")), Stage("long", ("many_steps",))],
    limits=Limits(wall_s=3.0, cpu_s=6.0, memory_mb=1024),
    preload=("numpy", "scipy.optimize"),
    best_known={
        "few_steps": (0.38221414, "a short search with SLSQP, rebuilt in the tests; not in print"),
        "many_steps": (0.3808753, "TTT-Discover, 2026, with 600 steps; AlphaEvolve 0.3809230"),
        "sets": (0.43333334, "13 / 30, a short search, rebuilt in the tests; not in print"),
    },
)
