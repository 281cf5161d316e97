"""What keeps a training run in its lane: floors on rewards, a diversity band, entropy, temperature.

Each controller is a frozen state with an ``update`` that returns the next one. The fields are plain
numbers and tuples: ``dataclasses.asdict`` goes into a checkpoint, ``Class(**state)`` comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import cos, isfinite, pi
from typing import Any

import numpy as np
import numpy.typing as npt

from vpo.sets import Bools


@dataclass(frozen=True)
class RewardFloors:
    """Lower bounds on mean rewards, enforced by Lagrange multipliers.

    The multipliers go into :func:`vpo.advantages.compute_advantages`; a constraint that is met on
    average loses its multiplier again:

        mu_j <- clip(mu_j + rate (floor_j - average_j), 0, largest)

    Attributes:
        floors: (k,) least mean reward of each objective; -inf for none.
        multipliers: (k,) mu; zeros at the start by default.
        averages: (k,) running means of the rewards; empty before the first update.
        rate: Step size of the multipliers.
        memory: Weight of the past in the running means, in [0, 1).
        largest: Bound on each multiplier.
    """

    floors: tuple[float, ...]
    multipliers: tuple[float, ...] = ()
    averages: tuple[float, ...] = ()
    rate: float = 0.05
    memory: float = 0.9
    largest: float = 5.0

    def __post_init__(self) -> None:
        k = len(self.floors)
        fields = {
            "floors": self.floors,
            "multipliers": self.multipliers or (0.0,) * k,
            "averages": self.averages,
        }
        for name, value in fields.items():
            if len(value) != k and not (name == "averages" and not value):
                raise ValueError(f"{name}: {len(value)} numbers for {k} floors")
            # A checkpoint in JSON brings lists back.
            object.__setattr__(self, name, tuple(float(number) for number in value))
        if not (self.rate > 0.0 and 0.0 <= self.memory < 1.0 and self.largest > 0.0):
            raise ValueError(
                f"rate {self.rate}, memory {self.memory}, largest {self.largest}: "
                "positive rate and largest, memory in [0, 1) are needed"
            )

    def update(self, rewards: Sequence[float] | npt.ArrayLike) -> RewardFloors:
        """Return the state after a step whose mean rewards were ``rewards`` (k,).

        Raises:
            ValueError: If their number is not k or one is not finite.
        """
        seen = np.asarray(rewards, dtype=np.float64)
        floors = np.array(self.floors)
        if seen.shape != floors.shape or not np.isfinite(seen).all():
            raise ValueError(f"rewards: {seen}, {len(floors)} finite numbers are needed")
        before = np.array(self.averages) if self.averages else seen
        averages = self.memory * before + (1.0 - self.memory) * seen
        moved = np.array(self.multipliers) + self.rate * (floors - averages)
        multipliers = np.clip(moved, 0.0, self.largest)
        return replace(
            self,
            multipliers=tuple(multipliers.tolist()),
            averages=tuple(averages.tolist()),
        )

    def met(self, rewards: npt.ArrayLike) -> Bools:
        """Return the (n,) mask of mean reward vectors (n, k) at or above every floor."""
        above: Bools = np.all(np.asarray(rewards) >= np.array(self.floors), axis=-1)
        return above


@dataclass(frozen=True)
class DiversityBand:
    """lambda_d held so that the specialisation share D / R stays in a band (integral control).

    Attributes:
        low: Below this share lambda_d rises.
        high: Above it lambda_d falls.
        value: lambda_d now.
        rate: Change a step, for each unit the share is off.
        smallest: Lower bound of lambda_d.
        largest: Upper bound of lambda_d.
    """

    low: float
    high: float
    value: float = 1.0
    rate: float = 1.0
    smallest: float = 0.0
    largest: float = 3.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= self.high <= 1.0:
            raise ValueError(f"band {self.low} to {self.high}: 0 <= low <= high <= 1 is needed")
        if not 0.0 <= self.smallest <= self.value <= self.largest:
            raise ValueError(
                f"lambda_d is {self.value}, allowed: {self.smallest} to {self.largest}"
            )

    def update(self, specialisation: float, expected_max: float) -> DiversityBand:
        """Return the state after a step with mean D and mean R; no change where R is 0."""
        if not (isfinite(specialisation) and isfinite(expected_max)):
            raise ValueError(f"D = {specialisation}, R = {expected_max}: finite ones are needed")
        if expected_max <= 0.0:
            return self
        share = specialisation / expected_max
        off = max(0.0, self.low - share) - max(0.0, share - self.high)
        return replace(self, value=_clip(self.value + self.rate * off, self.smallest, self.largest))


@dataclass(frozen=True)
class EntropyTarget:
    """Coefficient of an entropy bonus, nudged until the token entropy reaches a target.

    Attributes:
        target: Wanted mean entropy of a token, nats.
        coefficient: What the entropy is multiplied by in the objective.
        step: Change a step.
        largest: Bound of the coefficient.
    """

    target: float = 0.2
    coefficient: float = 0.0
    step: float = 0.005
    largest: float = 1.0

    def update(self, entropy: float) -> EntropyTarget:
        """Return the state after a step with mean token entropy ``entropy``, nats."""
        if not isfinite(entropy):
            raise ValueError(f"entropy is {entropy}, a finite number is needed")
        step = self.step if entropy < self.target else -self.step
        return replace(self, coefficient=_clip(self.coefficient + step, 0.0, self.largest))


@dataclass(frozen=True)
class TemperatureSchedule:
    """Sampling temperature that falls along a cosine and never below a floor.

    Attributes:
        start: Temperature at step 0.
        floor: Temperature from ``steps`` on; training for diversity wants it near 1.
        steps: Length of the fall.
    """

    start: float = 1.0
    floor: float = 0.7
    steps: int = 1000

    def __post_init__(self) -> None:
        if not 0.0 < self.floor <= self.start or self.steps < 1:
            raise ValueError(
                f"temperature from {self.start} to {self.floor} in {self.steps} steps: "
                "0 < floor <= start and steps >= 1 are needed"
            )

    def at(self, step: int) -> float:
        """Return the temperature at a step."""
        done = min(max(step, 0) / self.steps, 1.0)
        return self.floor + (self.start - self.floor) * 0.5 * (1.0 + cos(pi * done))


@dataclass(frozen=True)
class Controllers:
    """Those that a run uses, updated and stored together.

    Attributes:
        floors: On mean rewards; its multipliers go into the advantages.
        band: On D / R; its value is lambda_d.
        entropy: On the token entropy; its coefficient goes into the objective.
        temperature: Of sampling; depends on the step alone.
    """

    floors: RewardFloors | None = None
    band: DiversityBand | None = None
    entropy: EntropyTarget | None = None
    temperature: TemperatureSchedule | None = None

    def update(
        self,
        rewards: npt.ArrayLike | None,
        specialisation: float,
        expected_max: float,
        entropy: float,
    ) -> Controllers:
        """Return the state after a step.

        Args:
            rewards: (k,) mean rewards of the answers; None if there were none.
            specialisation: Mean D.
            expected_max: Mean R.
            entropy: Mean entropy of a token, nats; NaN if the step trained nothing.
        """
        floors, band, target = self.floors, self.band, self.entropy
        if floors is not None and rewards is not None:
            floors = floors.update(rewards)
        if band is not None:
            band = band.update(specialisation, expected_max)
        if target is not None and isfinite(entropy):
            target = target.update(entropy)
        return replace(self, floors=floors, band=band, entropy=target)

    def restored(self, state: dict[str, Any]) -> Controllers:
        """Return the same controllers in the state that ``dataclasses.asdict`` gave."""

        def again(name: str) -> Any:
            own = getattr(self, name)
            return None if own is None else type(own)(**state[name])

        return Controllers(*(again(entry.name) for entry in fields(self)))


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
