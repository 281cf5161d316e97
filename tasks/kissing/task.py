"""Kissing numbers: many spheres that touch one, in 9, 10 and 11 dimensions.

A priority function orders the integer vectors of one length and a greedy builder takes them, as in
the cap set task. Integers all; the judge measures every pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

#: Dimension -> (most spheres known, its source).
KNOWN = {
    9: (306, "the packing P9a, Conway and Sloane"),
    10: (510, "M. Ganzhinov, 2022; before it 500, Conway and Sloane"),
    11: (593, "AlphaEvolve, 2025; before it 592, Ganzhinov 2022"),
}
#: Entries stay below this, so that products stay far below the end of 64-bit integers.
BELOW = 10**6
#: Vectors that are still compared pair by pair in a blink.
AT_MOST = 2000


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the number of spheres in ``output``.

    Args:
        output: (m, d) integers, the directions of the spheres' centres; lengths may differ. It
            proves m if no two are closer than the longest is long: then all angles are 60 degrees
            or more, and scaled to one length they are centres.
        case: Says d.

    Raises:
        Invalid: If ``output`` is something else, or two vectors are too close.
    """
    d = case.given["d"]
    try:
        vectors = np.asarray(output)
    except ValueError:
        raise Invalid(f"the answer is not an array of integers of shape (m, {d})") from None
    if vectors.dtype.kind not in "iu" or vectors.ndim != 2 or vectors.shape[1] != d:
        raise Invalid(f"the answer is not an array of integers of shape (m, {d})")
    if not 1 <= len(vectors) <= AT_MOST:
        raise Invalid(f"{len(vectors)} vectors, 1 to {AT_MOST} are allowed")
    if not ((vectors > -BELOW) & (vectors < BELOW)).all():
        raise Invalid(f"an entry is not between -{BELOW} and {BELOW}")
    vectors = vectors.astype(np.int64)
    products = vectors @ vectors.T
    squares = np.diag(products)
    if (squares == 0).any():
        raise Invalid(f"vector {int(np.argmin(squares))} is zero")
    apart = squares[:, None] + squares - 2 * products
    np.fill_diagonal(apart, np.iinfo(np.int64).max)
    i, j = np.unravel_index(int(np.argmin(apart)), apart.shape)
    if apart[i, j] < squares.max():
        raise Invalid(
            f"vectors {i} and {j} are closer than the longest is long: squares "
            f"{apart[i, j]} and {squares.max()}"
        )
    return {
        f"spheres_{d}": float(len(vectors)),
        "filled": float(np.mean(vectors != 0)),
    }


TASK = Task(
    summary="Kissing arrangements in 9, 10 and 11 dimensions: priority(vectors) scores integer "
    "vectors of length sqrt(8), rows with two entries +-2 or eight +-1; they are taken from the "
    "highest on if 60 degrees from all taken before. Take many.",
    objectives=[
        # Half of what the vectors with two entries give by themselves is nothing.
        Objective(f"spheres_{d}", float(d * (d - 1)), float(best), unit="spheres")
        for d, (best, _) in KNOWN.items()
    ],
    descriptors=[
        Descriptor("ast_nodes", 5.0, 9.0, bins=10, unit="log2 nodes"),
        Descriptor("filled", 0.2, 1.0, bins=10, unit="share of the entries"),
    ],
    cases=[Case(f"dimension_{d}", {"d": d}) for d in KNOWN],
    score=score,
    stages=[
        Stage("small", ("dimension_9", "dimension_10")),
        Stage("large", ("dimension_11",)),
    ],
    limits=Limits(wall_s=6.0, cpu_s=12.0, memory_mb=1024),
    best_known={f"spheres_{d}": (float(best), source) for d, (best, source) in KNOWN.items()},
)
