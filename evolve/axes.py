"""What a task measures: objectives, descriptors, and how a judge refuses an answer.

A part of the task contract; :mod:`evolve.task` hands it on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from evolve.errors import TaskError

#: What the names of a task's parts look like.
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

#: What a judge returns: objective and descriptor names with their raw values.
Scores = Mapping[str, float]


class Invalid(ValueError):  # noqa: N818 - reads as a verdict: raise Invalid("two circles overlap")
    """Raised by a judge to refuse an output; the message becomes feedback for the next prompt."""


class BelowFloor(Invalid):
    """Raised by a judge that works out a stage's threshold itself."""


@dataclass(frozen=True)
class Objective:
    """One reward dimension, with the range that maps its raw value to [0, 1].

    Attributes:
        name: Identifier, unique in the task.
        low: Lower end of the range, in the raw unit.
        high: Upper end; values outside the range are clipped.
        direction: ``"max"`` if larger raw values are better, ``"min"`` if smaller ones are.
        unit: Unit of the raw value, for labels.
        bound: Raw value that nothing can surpass, by proof or by physics. A program whose result
            lies beyond it has found a fault of the judge: it is quarantined, neither archived nor
            rewarded. None for none.
    """

    name: str
    low: float
    high: float
    direction: Literal["max", "min"] = "max"
    unit: str = ""
    bound: float | None = None

    def __post_init__(self) -> None:
        _check_axis("objective", self.name, self.low, self.high)
        if self.direction not in ("max", "min"):
            raise TaskError(
                f"objective {self.name!r}: direction is {self.direction!r}, allowed: 'max', 'min'"
            )
        best = self.high if self.direction == "max" else self.low
        if self.bound is not None and (not math.isfinite(self.bound) or self.beyond(best)):
            raise TaskError(
                f"objective {self.name!r}: bound is {self.bound}, which the best end of the range, "
                f"{best}, surpasses"
            )

    def beyond(self, value: float) -> bool:
        """Return whether a raw value is better than anything can be."""
        if self.bound is None:
            return False
        return value > self.bound if self.direction == "max" else value < self.bound

    def reward(self, value: float) -> float:
        """Return ``value`` mapped to [0, 1], 1 being best.

        Raises:
            Invalid: If the value is NaN or infinite.
        """
        if not math.isfinite(value):
            raise Invalid(f"objective {self.name!r} is {value}, a finite number is needed")
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return share if self.direction == "max" else 1.0 - share


@dataclass(frozen=True)
class Descriptor:
    """One behaviour axis of the archive.

    A name of :data:`evolve.descriptors.BUILTIN` is measured for you; any other name must be
    among the values that the judge returns.

    Attributes:
        name: Identifier, unique in the task.
        low: Lower bound, fixed for the whole run; values outside fall into the edge cell.
        high: Upper bound.
        bins: Number of grid cells along this axis.
        unit: Unit, for labels.
    """

    name: str
    low: float
    high: float
    bins: int = 10
    unit: str = ""

    def __post_init__(self) -> None:
        _check_axis("descriptor", self.name, self.low, self.high)
        if self.bins < 1:
            raise TaskError(f"descriptor {self.name!r}: bins is {self.bins}, at least 1 is needed")


def _check_axis(kind: str, name: str, low: float, high: float) -> None:
    if not IDENTIFIER.match(name):
        raise TaskError(f"{kind} name {name!r}: letters, digits and '_' are allowed")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise TaskError(f"{kind} {name!r}: low={low}, high={high}; finite low < high is needed")
