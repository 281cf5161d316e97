"""Sums and differences: sets of integers that have many differences and few sums.

A finite set U of integers >= 0 with 0 in it proves that the exponent theta of Gyarmati, Hennecart
and Ruzsa (2007) is at least 1 + log(|U - U| / |U + U|) / log(2 max U + 1). The judge counts both
sets; only the logarithms are rounded, and those downwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

#: Objective -> elements allowed; the sums of 1000 numbers are still counted in a blink.
SIZES = {"up_to_16": 16, "up_to_100": 100, "up_to_1000": 1000}
#: Numbers stay below this, so that sums stay far below the end of 64-bit integers.
BELOW = 2**50
# Two logarithms and a quotient, each off by less than one unit in the last place.
_ROUNDING = 1e-15


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the bound that the set in ``output`` proves.

    Args:
        output: Different integers in 0..2^50 - 1, 0 among them, at most ``given["limit"]``.
        case: Its name is the objective.

    Raises:
        Invalid: If ``output`` is something else.
    """
    members = _members(output, case.given["limit"])
    largest = int(members.max())
    sums, differences = counts(members)
    return {
        case.name: bound(sums, differences, largest),
        "spread": math.log10(largest),
        "size": float(len(members)),
    }


def counts(members: NDArray[np.int64]) -> tuple[int, int]:
    """Return (|U + U|, |U - U|)."""
    sums = np.unique(members[:, None] + members)
    differences = np.unique(members[:, None] - members)
    return len(sums), len(differences)


def bound(sums: int, differences: int, largest: int) -> float:
    """Return 1 + log(differences / sums) / log(2 largest + 1), rounded down."""
    return 1.0 + math.log(differences / sums) / math.log(2 * largest + 1) - _ROUNDING


def _members(output: Any, limit: int) -> NDArray[np.int64]:
    try:
        values = np.asarray(output)
    except ValueError:
        raise Invalid("the answer is not a flat sequence of integers") from None
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise Invalid("the answer is not a flat sequence of integers")
    if not 2 <= len(values) <= limit:
        raise Invalid(f"{len(values)} numbers, 2 to {limit} are allowed")
    if not ((values >= 0) & (values < BELOW)).all():
        raise Invalid("a number lies outside 0..2^50 - 1")
    members: NDArray[np.int64] = np.sort(values.astype(np.int64))
    if (np.diff(members) == 0).any():
        raise Invalid("a number comes twice")
    if members[0] != 0:
        raise Invalid("0 is missing")
    return members


TASK = Task(
    summary="numbers(limit) returns a set U of at most limit different whole numbers, 0 among "
    "them. Make 1 + log(|U - U| / |U + U|) / log(2 max(U) + 1) large for limits of 16, 100 and "
    "1000: many differences, few sums, no large numbers.",
    objectives=[
        Objective("up_to_16", 1.0, 1.14),
        Objective("up_to_100", 1.0, 1.15),
        Objective("up_to_1000", 1.0, 1.16),
    ],
    descriptors=[
        Descriptor("ast_nodes", 5.0, 9.0, bins=10, unit="log2 nodes"),
        Descriptor("spread", 0.0, 10.0, bins=10, unit="log10 of the largest number"),
    ],
    cases=[Case(name, {"limit": limit}) for name, limit in SIZES.items()],
    score=score,
    stages=[Stage("small", ("up_to_16", "up_to_100")), Stage("large", ("up_to_1000",))],
    limits=Limits(wall_s=3.0, cpu_s=6.0, memory_mb=1024),
    best_known={
        name: (
            value,
            "a simplex of digits, rebuilt in the tests; no limit: 1.1584, AlphaEvolve 2025",
        )
        for name, value in (("up_to_16", 1.11238), ("up_to_100", 1.12292), ("up_to_1000", 1.13201))
    },
)
