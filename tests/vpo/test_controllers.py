"""Controllers in closed loops with systems whose answer is known."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from vpo.controllers import (
    Controllers,
    DiversityBand,
    EntropyTarget,
    RewardFloors,
    TemperatureSchedule,
)


def test_a_multiplier_follows_its_formula():
    floors = RewardFloors((0.5, -np.inf), rate=0.1, memory=0.5)
    one = floors.update([0.3, 0.0])  # the first average is the first value
    assert one.averages == (0.3, 0.0)
    assert one.multipliers == pytest.approx((0.02, 0.0))
    two = one.update([0.7, 0.9])
    assert two.averages == pytest.approx((0.5, 0.45))
    assert two.multipliers == pytest.approx((0.02, 0.0))
    for _ in range(50):
        two = two.update([1.0, 1.0])
    assert two.multipliers == (0.0, 0.0)
    for _ in range(500):
        two = two.update([0.0, 0.0])
    assert two.multipliers == (5.0, 0.0)


def test_floors_hold_the_constraint_of_a_known_problem():
    """max q_1 with q = (1 - x, x) and q_2 >= 0.3; the Lagrangian is linear in x, smoothed."""
    floors = RewardFloors((-np.inf, 0.3), rate=0.05, memory=0.5)
    x, seen = 0.0, []
    for _ in range(3000):
        mu = floors.multipliers[1]
        # Worth of (1 - x) + mu x with a quadratic cost of 0.5 x^2 for smoothness: x* = mu - 1.
        x += 0.1 * (np.clip(mu - 1.0, 0.0, 1.0) - x)
        floors = floors.update([1.0 - x, x])
        seen.append(x)
    assert np.mean(seen[-500:]) == pytest.approx(0.3, abs=0.01)
    assert floors.multipliers[1] == pytest.approx(1.3, abs=0.05)


def test_floors_tell_who_meets_them():
    floors = RewardFloors((0.5, -np.inf))
    assert floors.met([[0.5, 0.0], [0.4, 1.0]]).tolist() == [True, False]


def test_lambda_d_is_driven_into_the_band():
    """A system whose share of D grows with lambda_d, from outside on either side."""
    for start in (0.0, 3.0):
        band = DiversityBand(0.2, 0.3, value=start, rate=0.5)
        for _ in range(200):
            band = band.update(0.15 * band.value, 1.0)
        assert 0.2 - 1e-3 <= 0.15 * band.value <= 0.3 + 1e-3
    inside = DiversityBand(0.2, 0.3, value=1.0)
    assert inside.update(0.25, 1.0) == inside
    assert inside.update(0.5, 0.0) == inside
    assert DiversityBand(0.9, 1.0, value=3.0).update(0.0, 1.0).value == 3.0


def test_entropy_is_held_at_its_target():
    target = EntropyTarget(target=0.5, step=0.01)
    assert target.update(0.7).coefficient == 0.0
    for _ in range(300):
        target = target.update(0.2 + target.coefficient)  # more bonus, more entropy
    assert target.coefficient == pytest.approx(0.3, abs=0.011)
    assert EntropyTarget(coefficient=1.0).update(0.0).coefficient == 1.0


def test_temperature_falls_along_a_cosine_to_its_floor():
    schedule = TemperatureSchedule(start=1.2, floor=0.8, steps=100)
    assert schedule.at(0) == schedule.at(-5) == pytest.approx(1.2)
    assert schedule.at(50) == pytest.approx(1.0)
    assert schedule.at(100) == schedule.at(10**6) == pytest.approx(0.8)
    values = [schedule.at(step) for step in range(101)]
    assert (np.diff(values) < 0.0).all()


@pytest.mark.parametrize(
    "state",
    [
        RewardFloors((0.5, 0.1)).update([0.2, 0.3]),
        DiversityBand(0.1, 0.2).update(0.05, 1.0),
        EntropyTarget().update(0.1),
    ],
)
def test_state_survives_a_checkpoint_bit_by_bit(state):
    kind = type(state)
    again = kind(**json.loads(json.dumps(asdict(state))))
    assert again == state
    arguments = {
        RewardFloors: ([0.4, 0.4],),
        DiversityBand: (0.3, 0.7),
        EntropyTarget: (0.05,),
    }[kind]
    assert again.update(*arguments) == state.update(*arguments)


def test_controllers_are_updated_and_stored_together():
    parts = {
        "floors": RewardFloors((0.5, 0.1)),
        "band": DiversityBand(0.1, 0.2),
        "entropy": EntropyTarget(),
    }
    some = Controllers(**parts, temperature=TemperatureSchedule(1.0, 0.5, 10))
    moved = some.update([0.2, 0.3], 0.02, 0.5, 0.05)
    assert moved.floors == parts["floors"].update([0.2, 0.3])
    assert moved.band == parts["band"].update(0.02, 0.5)
    assert moved.entropy == parts["entropy"].update(0.05)
    assert moved.temperature == some.temperature
    assert some.restored(json.loads(json.dumps(asdict(moved)))) == moved
    still = moved.update(None, 0.15, 1.0, float("nan"))
    assert still == moved
    none = Controllers()
    assert none.update([0.1], 0.0, 1.0, 1.0) == none
    assert none.restored(asdict(none)) == none


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RewardFloors((0.5,), multipliers=(0.1, 0.2)), "2 numbers for 1 floors"),
        (lambda: RewardFloors((0.5,), memory=1.0), "memory"),
        (lambda: RewardFloors((0.5,)).update([np.nan]), "1 finite"),
        (lambda: RewardFloors((0.5,)).update([0.1, 0.2]), "1 finite"),
        (lambda: DiversityBand(0.5, 0.4), "low <= high"),
        (lambda: DiversityBand(0.1, 0.2, value=9.0), "lambda_d is 9.0"),
        (lambda: DiversityBand(0.1, 0.2).update(np.nan, 1.0), "finite"),
        (lambda: EntropyTarget().update(np.inf), "entropy is inf"),
        (lambda: TemperatureSchedule(start=0.5, floor=0.7), "floor <= start"),
        (lambda: TemperatureSchedule(steps=0), "steps >= 1"),
    ],
)
def test_bad_settings_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
