"""Matrix multiplication with few products: bilinear algorithms, checked in integers.

An algorithm need not be complete. What its products leave over, the judge completes in the plain
way: a product a * b of two entries for each pair that still contributes anything wrong. So every
answer is an algorithm that multiplies exactly, and the number of its products is scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

Integers = NDArray[np.int64]

#: Objective -> shape (n, m, p) of n x m by m x p.
SHAPES = {"products_245": (2, 4, 5), "products_333": (3, 3, 3), "products_234": (2, 3, 4)}
#: Coefficients are multiples of 1 / UNIT; two halves of Winograd's kind need no finer ones.
UNIT = 8
#: Coefficients stay below this, and so do the products, so that sums fit 64 bits.
BELOW = 1000
AT_MOST = 200


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the number of products of the completed algorithm.

    Args:
        output: (left, right, out), arrays of r rows with n m, m p and n p columns.
        case: Says (n, m, p).

    Raises:
        Invalid: If ``output`` is something else, or a coefficient is no multiple of 1 / UNIT.
    """
    n, m, p = case.given["shape"]
    if not isinstance(output, tuple | list) or len(output) != 3:
        raise Invalid("the answer is not (left, right, out)")
    left, right, out = (
        _coefficients(part, columns, name)
        for part, columns, name in zip(
            output, (n * m, m * p, n * p), ("left", "right", "out"), strict=True
        )
    )
    if not len(left) == len(right) == len(out):
        raise Invalid(f"{len(left)}, {len(right)} and {len(out)} rows, as many of each are needed")
    over = missing(left, right, out, (n, m, p))
    return {
        case.name: float(len(left) + over),
        "completed": over / (len(left) + over),
    }


def missing(left: Integers, right: Integers, out: Integers, shape: tuple[int, int, int]) -> int:
    """Return the number of pairs of entries whose product is not accounted for exactly.

    Args:
        left: (r, n m) coefficients in units of 1 / UNIT.
        right: (r, m p) likewise.
        out: (r, n p) likewise.
        shape: (n, m, p).
    """
    made = np.einsum("ri,rj,rk->ijk", left, right, out)
    return int((made != UNIT**3 * target(shape)).any(axis=2).sum())


def target(shape: tuple[int, int, int]) -> Integers:
    """Return what multiplying is: T[a, b, c] = 1 where entry a times entry b belongs to entry c."""
    n, m, p = shape
    tensor = np.zeros((n * m, m * p, n * p), dtype=np.int64)
    for i, j, k in np.ndindex(n, m, p):
        tensor[i * m + j, j * p + k, i * p + k] = 1
    return tensor


def _coefficients(part: Any, columns: int, name: str) -> Integers:
    try:
        values = np.asarray(part)
    except ValueError:
        raise Invalid(f"{name} is not an array of numbers with {columns} columns") from None
    if values.dtype.kind not in "iuf" or values.ndim != 2 or values.shape[1] != columns:
        raise Invalid(f"{name} is not an array of numbers with {columns} columns")
    if len(values) > AT_MOST:
        raise Invalid(f"{name} has {len(values)} rows, at most {AT_MOST} are allowed")
    values = values.astype(np.float64)
    if not (np.abs(values) < BELOW).all():
        raise Invalid(f"{name} holds a number that is not finite and below {BELOW}")
    units = values * UNIT
    if (units != np.rint(units)).any():
        raise Invalid(f"{name} holds a number that is no multiple of 1/{UNIT}")
    whole: Integers = units.astype(np.int64)
    return whole


TASK = Task(
    summary="products(n, m, p) returns (left, right, out), rows of coefficients: each row is a "
    "product of a form in the entries of A and one of B, added to the entries of C = A B. Pairs of "
    "entries that are not accounted for cost a product each. Use few products for 2x4 by 4x5, 3x3 "
    "by 3x3 and 2x3 by 3x4.",
    objectives=[
        Objective("products_245", 31.0, 44.0, "min", unit="products"),
        Objective("products_333", 22.0, 32.0, "min", unit="products"),
        Objective("products_234", 19.0, 28.0, "min", unit="products"),
    ],
    descriptors=[
        Descriptor("ast_nodes", 7.0, 9.5, bins=10, unit="log2 nodes"),
        Descriptor("completed", 0.0, 1.0, bins=10, unit="share of the products"),
    ],
    cases=[Case(name, {"shape": shape}) for name, shape in SHAPES.items()],
    score=score,
    stages=[Stage("small", ("products_234", "products_333")), Stage("large", ("products_245",))],
    limits=Limits(wall_s=2.0, cpu_s=4.0, memory_mb=1024),
    best_known={
        "products_245": (32.0, "AlphaEvolve, 2025; before it 33, Hopcroft and Kerr 1971"),
        "products_333": (23.0, "J. Laderman, 1976"),
        "products_234": (20.0, "Hopcroft and Kerr, 1971"),
    },
)
