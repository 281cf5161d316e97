"""Cap sets: many vectors of F_3^n, no three of them on a line.

A priority function orders the vectors and a greedy builder takes them, as in FunSearch
(Romera-Paredes et al., Nature 625, 2024). Everything is an integer; the judge tries every pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

#: n -> (largest cap known, its source).
KNOWN = {
    5: (45, "Edel, Ferret, Landjev and Storme, 2002: the largest there is"),
    6: (112, "Potechin, 2008: the largest there is"),
    8: (512, "FunSearch, Nature 625, 2024"),
}


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the size of the cap set in ``output``.

    Args:
        output: Numbers of vectors, digits in base 3.
        case: Says n.

    Raises:
        Invalid: If ``output`` is something else, a vector comes twice, or three lie on a line.
    """
    n = case.given["n"]
    try:
        numbers = np.asarray(output)
    except ValueError:
        raise Invalid("the answer is not a flat sequence of integers") from None
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise Invalid("the answer is not a flat sequence of integers")
    if not ((numbers >= 0) & (numbers < 3**n)).all():
        raise Invalid(f"a number lies outside 0..{3**n - 1}")
    numbers = numbers.astype(np.int64)
    member = np.zeros(3**n, dtype=bool)
    member[numbers] = True
    if int(member.sum()) != len(numbers):
        raise Invalid("a vector comes twice")
    powers = 3 ** np.arange(n)
    vectors = numbers[:, None] // powers % 3
    for i in range(len(numbers) - 1):
        # a + b + c = 0 mod 3 is what it means to lie on a line.
        third = (-(vectors[i] + vectors[i + 1 :])) % 3 @ powers
        if (hit := np.flatnonzero(member[third])).size:
            a, b, c = numbers[i], numbers[i + 1 + hit[0]], third[hit[0]]
            raise Invalid(f"the vectors {a}, {b} and {c} lie on a line")
    weight = float(np.mean(vectors != 0)) if len(numbers) else 0.0
    return {f"size_{n}": float(len(numbers)), "nonzero": weight}


TASK = Task(
    summary="Cap sets in F_3^n, n = 5, 6 and 8: priority(vectors, n) scores all 3^n vectors, rows "
    "of 0, 1, 2; they are taken from the highest score on if no three taken lie on a line. Take "
    "many.",
    objectives=[
        # All vectors of 0 and 1 are a cap of size 2^n; half of that is nothing.
        Objective(f"size_{n}", 2.0 ** (n - 1), float(best), unit="vectors")
        for n, (best, _) in KNOWN.items()
    ],
    descriptors=[
        Descriptor("ast_nodes", 5.0, 9.0, bins=10, unit="log2 nodes"),
        Descriptor("nonzero", 0.4, 1.0, bins=10, unit="share of the coordinates"),
    ],
    cases=[Case(f"dimension_{n}", {"n": n}) for n in KNOWN],
    score=score,
    stages=[
        Stage("small", ("dimension_5", "dimension_6")),
        Stage("large", ("dimension_8",)),
    ],
    limits=Limits(wall_s=3.0, cpu_s=6.0, memory_mb=1024),
    best_known={f"size_{n}": (float(best), source) for n, (best, source) in KNOWN.items()},
)
