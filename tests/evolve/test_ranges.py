"""Scales that grow: what was assigned stays, and better is always worth more."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolve.ranges import RunningScale, running_objective
from evolve.task import Invalid

VALUES = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 3))


@given(st.floats(-100, 100), st.lists(st.lists(VALUES, max_size=4), max_size=8))
def test_a_reward_never_changes_and_never_contradicts_the_values(start, rounds):
    scale = RunningScale(start)
    assigned = {start: scale.reward(start)}
    for values in rounds:
        assigned.update({v: scale.reward(v) for v in values if v not in assigned})
        scale.extend(values)
        for value, reward in assigned.items():
            assert scale.reward(value) == pytest.approx(reward, abs=1e-12)
    # Rewards of all rounds are comparable: each was given under another scale.
    ordered = [assigned[value] for value in sorted(assigned)]
    assert all(a <= b + 1e-12 for a, b in pairwise(ordered))
    assert all(0 <= reward <= 1 for reward in ordered)


def test_the_first_scale_is_known_in_closed_form():
    scale = RunningScale(2.0)
    # t / (1 + t) of the upper half, t in units of the first value.
    assert [scale.reward(x) for x in (2.0, 4.0, 0.0, 8.0)] == [0.5, 0.75, 0.25, 0.875]


def test_gains_beyond_the_best_are_measured_against_the_gains_before():
    fresh, grown = RunningScale(1.0), RunningScale(1.0)
    grown.extend([1.01])
    step = 1.02
    # To a run that has gained a hundredth, another hundredth is much.
    assert grown.reward(step) - grown.reward(1.01) > 20 * (fresh.reward(step) - fresh.reward(1.01))


def test_the_order_within_a_round_is_no_matter_and_reset_forgets():
    values = np.random.default_rng(0).normal(3, 10, 30).tolist()
    one, other = RunningScale(3.0), RunningScale(3.0)
    one.extend(values)
    random.Random(1).shuffle(values)
    other.extend(values)
    assert [one.reward(x) for x in range(-50, 50)] == [other.reward(x) for x in range(-50, 50)]
    one.reset()
    assert one == RunningScale(3.0)


def test_less_can_be_better_and_what_is_no_number_is_refused():
    less = running_objective("seconds", 4.0, "min")
    assert less.reward(2.0) == running_objective("x", -4.0).reward(-2.0) == pytest.approx(2 / 3)
    less.extend([1.0])
    assert less.reward(1.0) > less.reward(2.0) > less.reward(4.0) == 0.5 > less.reward(1e300)
    for value in (math.nan, math.inf):
        with pytest.raises(Invalid, match="finite"):
            less.reward(value)
