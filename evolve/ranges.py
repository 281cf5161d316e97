"""Rewards whose range nobody knows: a scale that grows with what a run sees and never shifts.

The raw values of somebody else's evaluator come without a range. The scale here starts with the
starting program in the middle. When a round closes it is extended beyond the best and the worst
value seen so far, and within them it stays as it is: a program's reward never changes afterwards,
and a better value always earns more than a worse one, whenever either was seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from evolve.task import Invalid, Objective


@dataclass
class RunningScale:
    """A strictly increasing map from numbers to (0, 1), extended at its ends.

    Beyond the last knot at x with reward y the reward is ``y + (1 - y) t / (1 + t)``, with t the
    distance from x in units of the knot's width; below the first one it is the mirror image. A
    new knot lies on the curve, so what was assigned stays, and its width is the distance from the
    start: gains are measured against what has been gained before.

    Attributes:
        start: The value with reward 1/2.
    """

    start: float
    _up: list[tuple[float, float, float]] = field(init=False, repr=False)
    _down: list[tuple[float, float, float]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything but the start."""
        # Nothing is known of the scale yet but the size of the first value.
        width = abs(self.start) or 1.0
        self._up, self._down = [(self.start, 0.5, width)], [(self.start, 0.5, width)]

    def reward(self, value: float) -> float:
        """Return the reward of a value."""
        if value >= self.start:
            x, y, width = next(knot for knot in reversed(self._up) if knot[0] <= value)
            return y + (1.0 - y) * _share(value - x, width)
        x, y, width = next(knot for knot in reversed(self._down) if knot[0] >= value)
        return y - y * _share(x - value, width)

    def extend(self, values: Iterable[float]) -> None:
        """Take note of values that were seen; call it when no reward is being worked out."""
        seen = list(values)
        if not seen:
            return
        high, low = max(seen), min(seen)
        if high > self._up[-1][0]:
            self._up.append((high, self.reward(high), high - self.start))
        if low < self._down[-1][0]:
            self._down.append((low, self.reward(low), self.start - low))


def _share(distance: float, width: float) -> float:
    """Return t / (1 + t) for t = distance / width, without overflow."""
    return 1.0 - 1.0 / (1.0 + min(distance / width, 1e300))


@dataclass(frozen=True)
class RunningObjective(Objective):
    """An objective on a :class:`RunningScale`; ``low`` and ``high`` only name a stretch of it.

    Attributes:
        scale: The scale; for ``"min"`` of the negative value.
    """

    scale: RunningScale = field(default_factory=lambda: RunningScale(0.0), compare=False)

    def reward(self, value: float) -> float:
        """Return ``value`` mapped to (0, 1).

        Raises:
            Invalid: If the value is NaN or infinite.
        """
        if not math.isfinite(value):
            raise Invalid(f"objective {self.name!r} is {value}, a finite number is needed")
        return self.scale.reward(self._signed(value))

    def extend(self, values: Iterable[float]) -> None:
        """Extend the scale by raw values."""
        self.scale.extend(map(self._signed, values))

    def _signed(self, value: float) -> float:
        return value if self.direction == "max" else -value


def running_objective(name: str, start: float, direction: str = "max") -> RunningObjective:
    """Return an objective on a scale that starts at a value."""
    width = abs(start) or 1.0
    minimised = direction == "min"
    return RunningObjective(
        name,
        start - width,
        start + width,
        "min" if minimised else "max",
        scale=RunningScale(-start if minimised else start),
    )
