"""Hexagons in a hexagon: as small a regular hexagon around n regular ones of side 1 as can be.

The judge fits both sizes itself: the hexagons grow about their centres until two would overlap, the
outer one shrinks about its own until it would cut one, and the ratio of the sides is the figure. So
nothing can overlap and there is no border to miss. All of it is rational arithmetic, with two
fractions on either side of the square root of 3, and rounded against the answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

Array = NDArray[np.float64]
Vector = tuple[Fraction, Fraction]

_DIGITS = 10**40
#: Fractions just below and just above the square root of 3.
ROOT3 = (
    Fraction(math.isqrt(3 * _DIGITS**2), _DIGITS),
    Fraction(math.isqrt(3 * _DIGITS**2) + 1, _DIGITS),
)
#: Coordinates stay below this.
BELOW = 1e6


@dataclass(frozen=True)
class Hexagon:
    """A regular hexagon of side 1.

    Attributes:
        x: Of its centre.
        y: Of its centre.
        cos: Of its turn; the squares of the two add up to 1 exactly.
        sin: Of its turn.
    """

    x: Fraction
    y: Fraction
    cos: Fraction
    sin: Fraction

    def turned(self, vector: Vector) -> Vector:
        """Return a vector given in the hexagon's own axes."""
        a, b = vector
        return self.cos * a - self.sin * b, self.sin * a + self.cos * b

    def corners(self) -> list[Vector]:
        """Return three corners from the centre, the others being opposite.

        The middle two lie a little outside of the hexagon, which the hull of all contains.
        """
        half, high = Fraction(1, 2), ROOT3[1] / 2
        own = ((Fraction(1), Fraction(0)), (half, high), (-half, high))
        return [self.turned(corner) for corner in own]

    def normals(self, root: Fraction) -> list[Vector]:
        """Return vectors of length 1 across its three pairs of sides, ``root`` being sqrt(3)."""
        high, half = root / 2, Fraction(1, 2)
        own = ((high, half), (Fraction(0), Fraction(1)), (-high, half))
        return [self.turned(normal) for normal in own]


def hexagon(x: float, y: float, turn: float) -> Hexagon:
    """Return a hexagon whose turn is, to within rounding, the one wished for.

    A sixth of a full turn changes nothing; the half tangent makes sine and cosine rational.
    """
    t = Fraction(math.tan((turn % (math.pi / 3)) / 2))
    return Hexagon(Fraction(x), Fraction(y), (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t))


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the side of the outer hexagon for the arrangement in ``output``.

    Args:
        output: (x, y, turns, outer): three sequences of n numbers, and (x, y, turn) of the outer
            hexagon; turns in radians. Only directions and proportions matter, not the scale.
        case: Says n.

    Raises:
        Invalid: If ``output`` is something else, or two centres coincide.
    """
    n = case.given["n"]
    if not isinstance(output, tuple | list) or len(output) != 4:
        raise Invalid("the answer is not (x, y, turns, outer)")
    x, y, turns = (
        _numbers(part, n, name) for part, name in zip(output, ("x", "y", "turns"), strict=False)
    )
    outer = _numbers(output[3], 3, "outer")
    inner = [hexagon(*values) for values in zip(x, y, turns, strict=True)]
    size = largest_size(inner)
    # Beyond the ranges any larger figure is as good; it keeps hostile ones within a float.
    side = min(smallest_side(inner, hexagon(*outer), size), Fraction(10**9))
    value = float(side)
    if Fraction(value) < side:
        value = math.nextafter(value, math.inf)
    tilt = np.abs((turns - outer[2] + math.pi / 6) % (math.pi / 3) - math.pi / 6)
    return {case.name: value, "tilted": float(np.mean(tilt > 1e-3))}


def largest_size(hexagons: list[Hexagon]) -> Fraction:
    """Return a side with which the hexagons about these centres do not overlap.

    Two convex bodies are apart if a line is between them, for hexagons one along a side.

    Raises:
        Invalid: If there is none.
    """
    size = Fraction(10**12)
    for (i, one), (j, other) in combinations(enumerate(hexagons), 2):
        apart = (other.x - one.x, other.y - one.y)
        corners = [*one.corners(), *other.corners()]
        axes = [*one.normals(ROOT3[1]), *other.normals(ROOT3[1])]
        # Any line will do for a proof: floats choose it, fractions measure.
        room = max(axes, key=lambda axis: _room(axis, apart, corners, exact=False))
        size = min(size, _room(room, apart, corners, exact=True))
        if size <= 0:
            raise Invalid(f"the centres of hexagons {i} and {j} coincide")
    return size


def smallest_side(inner: list[Hexagon], outer: Hexagon, size: Fraction) -> Fraction:
    """Return the side of a hexagon that holds all, in units of theirs, which is ``size``."""
    reach = Fraction(0)
    for h in inner:
        apart = (h.x - outer.x, h.y - outer.y)
        corners = h.corners()
        # Linear in the square root of 3, so the largest is at one of the fractions around it.
        for root in ROOT3:
            for normal in outer.normals(root):
                tall = max(abs(_dot(normal, corner)) for corner in corners)
                reach = max(reach, abs(_dot(normal, apart)) / size + tall)
    return 2 * reach / ROOT3[0]


def _room(axis: Vector, apart: Vector, corners: list[Vector], *, exact: bool) -> Any:
    if not exact:
        a, b = float(axis[0]), float(axis[1])
        heights = [abs(a * float(x) + b * float(y)) for x, y in corners]
        return abs(a * float(apart[0]) + b * float(apart[1])) / (
            max(heights[:3]) + max(heights[3:])
        )
    fractions = [abs(_dot(axis, corner)) for corner in corners]
    return abs(_dot(axis, apart)) / (max(fractions[:3]) + max(fractions[3:]))


def _dot(a: Vector, b: Vector) -> Fraction:
    return a[0] * b[0] + a[1] * b[1]


def _numbers(part: Any, n: int, name: str) -> Array:
    try:
        values = np.asarray(part)
    except ValueError:
        raise Invalid(f"{name} is not a flat sequence of {n} numbers") from None
    if values.dtype.kind not in "iuf" or values.shape != (n,):
        raise Invalid(f"{name} is not a flat sequence of {n} numbers")
    values = values.astype(np.float64)
    if not (np.isfinite(values) & (np.abs(values) < BELOW)).all():
        raise Invalid(f"{name} holds a number that is not finite and below {BELOW:g}")
    return values


TASK = Task(
    summary="pack(n) returns (x, y, turns, outer) of n equal regular hexagons and of a regular "
    "hexagon (x, y, turn) around them, in any scale: the judge grows the inner ones until two "
    "touch and shrinks the outer one. Make the side of the outer one, in units of the inner, small "
    "for 11, 12 and 13 hexagons.",
    objectives=[Objective(f"side_{n}", 3.5, 8.0, "min", unit="sides") for n in (11, 12, 13)],
    descriptors=[
        Descriptor("ast_nodes", 8.5, 10.5, bins=10, unit="log2 nodes"),
        Descriptor("tilted", 0.0, 1.0, bins=10, unit="share of the hexagons"),
    ],
    cases=[Case(f"side_{n}", {"n": n}) for n in (11, 12, 13)],
    score=score,
    stages=[Stage("first", ("side_11",)), Stage("rest", ("side_12", "side_13"))],
    limits=Limits(wall_s=3.0, cpu_s=6.0, memory_mb=1024),
    preload=("numpy", "scipy.optimize"),
    best_known={
        "side_11": (3.930092, "AlphaEvolve, 2025; before it 3.943"),
        "side_12": (3.9419123, "AlphaEvolve, 2025; before it 4.0"),
    },
)
