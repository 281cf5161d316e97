"""The hexagon judge against closed forms, points in hexagons, and answers that are none."""

import math
from fractions import Fraction

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module

TASK = load_task("hexagon_packing")
JUDGE = judge_module("hexagon_packing")


def judged(x, y, turns, outer):
    case = Case("side", {"n": len(x)})
    return TASK.score((x, y, turns, outer), case)["side"]


def honeycomb(rings, scale=1.0):
    """Centres of a honeycomb of hexagons of side ``scale`` around one, each with corners at 0."""
    points = [
        (1.5 * a * scale, math.sqrt(3) * (b + a / 2) * scale)
        for a in range(-rings, rings + 1)
        for b in range(-rings, rings + 1)
        if abs(a + b) <= rings
    ]
    x, y = np.array(points).T
    return x, y


def inside(px, py, x, y, turn, side):
    """Whether points lie in the interior of a hexagon: their distances from its middle lines."""
    held = np.ones(np.shape(px), dtype=bool)
    for k in range(3):
        angle = turn + math.pi / 6 + k * math.pi / 3
        held &= (
            np.abs((px - x) * math.cos(angle) + (py - y) * math.sin(angle))
            < side * math.sqrt(3) / 2
        )
    return held


def test_one_hexagon_needs_one():
    for turn in (0.0, 0.3, -7.0):
        value = judged([3.0], [-1.0], [turn], (3.0, -1.0, turn))
        assert 1.0 <= value < 1 + 1e-12
    # Turned by 30 degrees it sticks out: 2 / sqrt(3).
    assert judged([0.0], [0.0], [0.0], (0.0, 0.0, math.pi / 6)) == pytest.approx(2 / math.sqrt(3))


@pytest.mark.parametrize(
    ("rings", "turn", "side"),
    [
        # Along rows of centres cells reach 1.5 rings + 1, across them sqrt(3) (rings + 1/2).
        (1, math.pi / 6, 5 / math.sqrt(3)),
        (1, 0.0, 3.0),
        (2, math.pi / 6, 8 / math.sqrt(3)),
        (2, 0.0, 5.0),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 0.001, 1000.0])
def test_honeycombs_are_known_in_closed_form(rings, turn, side, scale):
    x, y = honeycomb(rings, scale)
    assert judged(x, y, np.zeros(len(x)), (0, 0, turn)) == pytest.approx(side, abs=1e-9)


def test_a_honeycomb_pushed_by_1e_8_costs_that_and_no_less():
    x, y = honeycomb(1)
    before = judged(x, y, np.zeros(7), (0, 0, math.pi / 6))
    x[0] += 1e-8
    # A cell moved inwards overlaps two others, so all shrink.
    after = judged(x, y, np.zeros(7), (0, 0, math.pi / 6))
    assert 1e-9 < after - before < 1e-7


@pytest.mark.parametrize("seed", range(12))
def test_no_point_lies_in_two_hexagons_or_outside(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    x, y = rng.uniform(0, 4, (2, n))
    turns = rng.uniform(-10, 10, n)
    outer = (*rng.uniform(1, 3, 2), float(rng.uniform(-10, 10)))
    hexagons = [JUDGE.hexagon(*v) for v in zip(x, y, turns, strict=True)]
    size = float(JUDGE.largest_size(hexagons))
    side = judged(x, y, turns, outer) * size
    px, py = rng.uniform(-2, 6, (2, 20000))
    count = sum(
        inside(px, py, *v, size * (1 - 1e-9)).astype(int) for v in zip(x, y, turns, strict=True)
    )
    assert count.max() <= 1
    corners = np.arange(6) * math.pi / 3
    for a, b, turn in zip(x, y, turns, strict=True):
        cx, cy = a + size * np.cos(turn + corners), b + size * np.sin(turn + corners)
        assert inside(cx, cy, *outer, side * (1 + 1e-9)).all()
    # Neither size is wasteful: a little more of it and something gives way.
    assert count.max() == 1
    touching = np.array([
        ~inside(a + size * np.cos(t + corners), b + size * np.sin(t + corners), *outer,
                side * (1 - 1e-6))
        for a, b, t in zip(x, y, turns, strict=True)
    ])  # fmt: skip
    assert touching.any()


def test_rotations_are_exact_and_near_the_turn_asked_for():
    for turn in (0.0, 0.5, 1.0471975511965976, -2.0, 1e5):
        h = JUDGE.hexagon(0.0, 0.0, turn)
        assert h.cos**2 + h.sin**2 == 1
        assert math.atan2(h.sin, h.cos) == pytest.approx(turn % (math.pi / 3), abs=1e-11)
    low, high = JUDGE.ROOT3
    assert low**2 < 3 < high**2
    assert high - low == Fraction(1, 10**40)


GOOD = [0.0, 2.0]


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not (x, y, turns, outer)"),
        ((GOOD, GOOD, GOOD), "not (x, y, turns, outer)"),
        ((GOOD, GOOD, [0.0], (0, 0, 0)), "turns is not a flat sequence of 2 numbers"),
        ((GOOD, GOOD, GOOD, (0, 0)), "outer is not a flat sequence of 3 numbers"),
        ((GOOD, [[0.0], [1.0, 2.0]], GOOD, (0, 0, 0)), "y is not a flat sequence"),
        ((["0", "1"], GOOD, GOOD, (0, 0, 0)), "x is not a flat sequence"),
        (([True, False], GOOD, GOOD, (0, 0, 0)), "x is not a flat sequence"),
        (([10**400, 0], GOOD, GOOD, (0, 0, 0)), "x is not a flat sequence"),
        (([math.nan, 0], GOOD, GOOD, (0, 0, 0)), "not finite and below"),
        ((GOOD, GOOD, [math.inf, 0], (0, 0, 0)), "not finite and below"),
        ((GOOD, GOOD, GOOD, (0, 0, 1e300)), "not finite and below"),
        (([1.0, 1.0], [2.0, 2.0], GOOD, (0, 0, 0)), "centres of hexagons 0 and 1 coincide"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, Case("side", {"n": 2}))
    assert says in str(caught.value)


def test_an_arrangement_without_use_is_bounded():
    # Centres a millionth of a millionth apart: a figure that is large, finite and below the cap.
    assert judged([0.0, 1e-300], [0.0, 0.0], [0.0, 0.0], (9e5, 0, 0)) == 1e9
