"""The Heilbronn judge against figures with known shares."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module

TASK = load_task("heilbronn")
JUDGE = judge_module("heilbronn")


def judged(x, y, shape):
    return TASK.score((x, y), Case("any", {"n": len(x), "shape": shape}))


def polygon(n):
    turn = 2 * np.pi * np.arange(n) / n
    return np.cos(turn), np.sin(turn)


@pytest.mark.parametrize(
    ("x", "y", "shape", "share"),
    [
        # The corners of the triangle, and its centroid, cut it into three.
        ([0, 3, 0], [0, 0, 3], "triangle", 1.0),
        ([0, 3, 0, 1], [0, 0, 3, 1], "triangle", 1 / 3),
        # A square: every three corners are half of it; it fills half of the triangle around it.
        ([0, 1, 1, 0], [0, 0, 1, 1], "convex", 0.5),
        ([0, 1, 1, 0], [0, 0, 1, 1], "triangle", 0.25),
        # Three on a line.
        ([0, 1, 2, 0], [0, 0, 0, 1], "convex", 0.0),
        # Coinciding points span nothing with any third.
        ([0, 0, 2, 0], [0, 0, 0, 1], "convex", 0.0),
    ],
)
def test_shares_by_hand(x, y, shape, share):
    assert judged(x, y, shape)["any"] == share


def test_regular_polygons_in_closed_form():
    # Three neighbours of a regular n-gon: (1 - cos(2 pi / n)) sin(2 pi / n) against n / 2 times
    # the sine.
    for n in (5, 6, 7, 13):
        x, y = polygon(n)
        share = (1 - math.cos(2 * math.pi / n)) / (n / 2)
        scores = judged(x, y, "convex")
        assert scores["any"] == pytest.approx(share, rel=1e-12)
        assert scores["on_hull"] == 1.0
    x, y = polygon(6)
    assert judged(np.append(x, 0), np.append(y, 0), "convex")["on_hull"] == pytest.approx(6 / 7)


@pytest.mark.parametrize("seed", range(10))
def test_agrees_with_rational_arithmetic_and_another_hull(seed):
    spatial = pytest.importorskip("scipy.spatial")
    rng = np.random.default_rng(seed)
    n = 9
    x, y = rng.normal(size=(2, n)) * 10.0 ** rng.integers(-5, 6)
    points = [(Fraction(a), Fraction(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    smallest = min(
        abs((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]))
        for a, b, c in itertools.combinations(points, 3)
    )
    leg = max(a + b for a, b in points) - min(a for a, _ in points) - min(b for _, b in points)
    assert judged(x, y, "triangle")["any"] == float(smallest / leg**2)
    hull = spatial.ConvexHull(np.stack([x, y], axis=1))
    found = judged(x, y, "convex")
    assert found["any"] == pytest.approx(float(smallest) / (2 * hull.volume), rel=1e-9)
    assert found["on_hull"] == len(hull.vertices) / n


@pytest.mark.parametrize("shape", ["triangle", "convex"])
def test_scale_and_place_do_not_matter(shape):
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 100, (2, 8)) / 64
    share = judged(x, y, shape)["any"]
    assert judged(x * 2.0**-200, y * 2.0**-200, shape)["any"] == share
    assert judged(x * 4 + 7, y * 4 - 3, shape)["any"] == share
    if shape == "convex":
        # Any affine map, here of determinant 1.
        assert judged(x + 3 * y, y, shape)["any"] == share


@pytest.mark.parametrize(("case", "n"), [("triangle_11", 11), ("convex_13", 13), ("convex_14", 14)])
def test_random_points_stay_below_the_best_known(case, n):
    best, _ = TASK.best_known[case]
    rng = np.random.default_rng(2)
    for _ in range(30):
        scores = TASK.score(tuple(rng.random((2, n))), TASK.case(case))
        assert 0 < scores[case] < best


GOOD = [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not (x, y)"),
        ("xy", "not (x, y)"),
        ({}, "not (x, y)"),
        ((GOOD,), "not (x, y)"),
        (np.zeros((2, 3)), "not (x, y)"),
        ((GOOD, GOOD[:2]), "y is not a flat sequence of 3 numbers"),
        (([GOOD], GOOD), "x is not a flat sequence"),
        (([0.0, [1.0], 2.0], GOOD), "x is not a flat sequence"),
        ((["0", "1", "2"], GOOD), "x is not a flat sequence"),
        (([True, False, True], GOOD), "x is not a flat sequence"),
        (([10**400, 0, 1], GOOD), "x is not a flat sequence"),
        (([math.nan, 0.0, 1.0], GOOD), "x holds a number that is not finite"),
        ((GOOD, [0.0, 1.0, math.inf]), "y holds a number that is not finite"),
        (([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]), "all points lie on a line"),
        (([1e300, 1e300, 1e300], GOOD), "all points lie on a line"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, Case("any", {"n": 3, "shape": "convex"}))
    assert says in str(caught.value)


def test_a_hair_off_a_line_is_no_line():
    scores = judged([0.0, 1.0, 2.0], [0.0, 1e-300, 0.0], "convex")
    assert scores["any"] == 1.0
