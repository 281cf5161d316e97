"""The circle judge against closed forms, an exact check of its own, and bad answers."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module

TASK = load_task("circle_packing")
JUDGE = judge_module("circle_packing")


def judged(x, y, radii):
    return TASK.score((x, y, radii), Case("any", {"n": len(x)}))


def grid(side):
    """Centres of side * side equal circles and their radius."""
    at = (np.arange(side) + 0.5) / side
    x, y = np.meshgrid(at, at)
    return x.ravel(), y.ravel(), 0.5 / side


def is_valid(x, y, radii):
    """Check a packing pair by pair in rational arithmetic."""
    x, y, radii = ([Fraction(float(v)) for v in part] for part in (x, y, radii))
    inside = all(
        r >= 0 and r <= v <= 1 - r for a, b, r in zip(x, y, radii, strict=True) for v in (a, b)
    )
    apart = all(
        (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 >= (radii[i] + radii[j]) ** 2
        for i, j in combinations(range(len(x)), 2)
    )
    return inside and apart


def test_a_grid_of_touching_circles_is_exact():
    # 1/8 is a binary fraction: sixteen such circles touch each other and the walls exactly.
    x, y, r = grid(4)
    scores = judged(x, y, np.full(16, r))
    assert scores["sum_of_radii"] == 2.0
    assert scores["smallest_radius"] == 0.125
    assert scores["covered_area"] == pytest.approx(math.pi / 4, abs=1e-15)
    assert scores["unevenness"] == 0.0
    assert scores["shrunk_by"] == 0.0


def test_26_circles_in_closed_form():
    # A 5 x 5 grid and one circle in a hole between four of them.
    x, y, r = grid(5)
    hole = r * (math.sqrt(2) - 1)
    radii = np.append(np.full(25, r), hole)
    scores = judged(np.append(x, 0.2), np.append(y, 0.2), radii)
    assert scores["sum_of_radii"] == pytest.approx(2.5 + 0.1 * (math.sqrt(2) - 1), abs=1e-14)
    assert scores["smallest_radius"] == pytest.approx(hole, abs=1e-15)
    assert scores["covered_area"] == pytest.approx(math.pi * (0.25 + hole**2), abs=1e-14)
    assert scores["shrunk_by"] < 1e-15


def test_an_overlap_of_1e_8_costs_1e_8():
    x, y, r = grid(4)
    radii = np.full(16, r)
    radii[5] += 1e-8
    assert not is_valid(x, y, radii)
    fitted = JUDGE.fit(x, y, radii)
    assert is_valid(x, y, fitted)
    # Circle 5 gives up half of the overlap, and so do the four that it overlaps.
    assert math.fsum(fitted) == pytest.approx(2.0 + 1e-8 - 5 * 0.5e-8, abs=1e-15)
    assert judged(x, y, radii)["shrunk_by"] == pytest.approx(0.5e-8, rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_scored_is_always_valid(seed):
    rng = np.random.default_rng(seed)
    n = 26
    x, y = rng.uniform(0, 1, (2, n))
    distance = np.hypot(x[:, None] - x, y[:, None] - y) + 9 * np.eye(n)
    wall = np.minimum(np.minimum(x, 1 - x), np.minimum(y, 1 - y))
    # Near enough to validity that no circle has to vanish; every second answer is valid.
    radii = np.minimum(wall, distance.min(axis=1) / 2) * (0.99 if seed % 2 else 1.01)
    fitted = JUDGE.fit(x, y, radii)
    assert is_valid(x, y, fitted)
    assert (fitted <= radii).all()
    assert (fitted > 0).all()
    if is_valid(x, y, radii):
        assert fitted is radii


@pytest.mark.parametrize("seed", range(10))
def test_clashes_agree_with_rational_arithmetic_at_the_last_bit(seed):
    rng = np.random.default_rng(seed)
    # Two circles that touch up to rounding, and one on the wall likewise.
    x, y = rng.uniform(0.3, 0.7, (2, 2))
    r = math.hypot(x[0] - x[1], y[0] - y[1]) / 2
    for a in (r, math.nextafter(r, 1), math.nextafter(r, 0)):
        radii = np.array([a, a])
        if (radii < 0.3).all():
            assert (JUDGE.clashes(x, y, radii) == []) == is_valid(x, y, radii)
    at = np.array([0.1])
    assert JUDGE.clashes(at, at, np.array([0.1])) == []
    assert JUDGE.clashes(at, at, np.array([math.nextafter(0.1, 1)])) == [0]
    # 1 - 0.9 is not 0.1 in binary: the exact check knows which side it is on.
    high = np.array([0.9])
    expected = Fraction(0.1) > 1 - Fraction(0.9)
    assert (JUDGE.clashes(high, high, np.array([0.1])) == [0]) == expected


def test_points_are_allowed_to_stay_points():
    scores = judged([0.25, 0.75], [0.5, 0.5], [0.25, 0.0])
    assert scores["sum_of_radii"] == 0.25
    assert scores["smallest_radius"] == 0.0
    assert judged([0.25, 0.75], [0.5, 0.5], [0.0, 0.0])["unevenness"] == 0.0


GOOD = [0.25, 0.75]


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not (x, y, radii)"),
        ("xyz", "not (x, y, radii)"),
        ((GOOD, GOOD), "not (x, y, radii)"),
        ({"x": GOOD}, "not (x, y, radii)"),
        ((GOOD, GOOD, [0.1]), "radii is not a flat sequence of 2 numbers"),
        ((GOOD, [[0.2], [0.3]], GOOD), "y is not a flat sequence of 2 numbers"),
        ((GOOD, [[0.2], [0.3, 0.4]], GOOD), "y is not a flat sequence"),
        ((["0.2", "0.3"], GOOD, GOOD), "x is not a flat sequence"),
        (([None, 0.2], GOOD, GOOD), "x is not a flat sequence"),
        (([True, False], GOOD, GOOD), "x is not a flat sequence"),
        (([0.1 + 0j, 0.2], GOOD, GOOD), "x is not a flat sequence"),
        (([10**400, 0.2], GOOD, GOOD), "x is not a flat sequence"),
        (([math.nan, 0.2], GOOD, GOOD), "not finite"),
        ((GOOD, GOOD, [math.inf, 0.1]), "not finite"),
        (([1e300, 0.2], GOOD, [0.1, 0.1]), "centre of circle 0 lies outside"),
        ((GOOD, [-1e-12, 0.3], [0.1, 0.1]), "centre of circle 0 lies outside"),
        ((GOOD, GOOD, [0.1, -0.1]), "radius of circle 1 is negative"),
        ((GOOD, GOOD, [1e300, 1e300]), "circle 0 lies inside another"),
        (([0.5, 0.5], [0.5, 0.5], [0.1, 0.1]), "circle 0 lies inside another"),
        (([0.0, 0.5], [0.5, 0.5], [0.1, 0.1]), "circle 0 lies inside another or too far"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, Case("any", {"n": 2}))
    assert says in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_arrays_of_any_number_type_are_read(dtype):
    x = np.array([1, 0], dtype=dtype)
    y = np.array([0, 1], dtype=dtype)
    assert judged(x, y, np.zeros(2, dtype=dtype))["sum_of_radii"] == 0.0


def test_the_best_known_smallest_radius_and_area_are_reachable_orders():
    # 26 equal circles at the published radius cover less than the square; a 5 x 6 grid is worse.
    best, _ = TASK.best_known["smallest_radius"]
    assert 1 / 12 < best < math.sqrt(1 / (26 * math.pi))
