"""The judge of circles in rectangles against closed forms, rational arithmetic, and bad answers."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module

TASK = load_task("circle_shapes")
JUDGE = judge_module("circle_shapes")

# 21 circles (x, y, radius) in a rectangle, found by SLSQP: 0.4 % below the best in print.
WIDTH = 0.9685166517803308
CIRCLES_21 = [
    (0.10203141477292287, 0.3786986607908071, 0.10203141477292373),
    (0.3091406992932495, 0.32583252257121575, 0.11171863623239005),
    (0.6995468980364745, 0.2660713749721092, 0.07665116735454505),
    (0.5215410096610943, 0.29241811617345653, 0.10329395502513236),
    (0.8444901851793276, 0.5893883498061993, 0.12402646660100819),
    (0.6103281652899596, 0.6685928779666207, 0.1231682114156965),
    (0.39367070498105855, 0.11522207051260677, 0.11522207051260536),
    (0.6140477427295853, 0.10537486123697906, 0.10537486123698987),
    (0.8435523716697121, 0.12496428011061636, 0.12496428011061858),
    (0.4532797170928623, 0.49526267934624313, 0.1107282888464933),
    (0.37323571217236745, 0.7087883753357311, 0.11730737847664804),
    (0.5220855198666875, 0.9036121114158475, 0.1278712368038236),
    (0.06888538878074933, 0.5463706462204866, 0.06888538878075265),
    (0.13981874128814945, 0.139818741288147, 0.13981874128815072),
    (0.6645463787818691, 0.44563269074124057, 0.10628954016797111),
    (0.12864561817966919, 0.7346449506090179, 0.1286456181796696),
    (0.24129409871706933, 0.5308374978229942, 0.10422163580532745),
    (0.2827399471023764, 0.9194833695032641, 0.11199997871640302),
    (0.8083273788269328, 0.8712940752662782, 0.1601892729533922),
    (0.8602342736589432, 0.35761362509662786, 0.10828237812138686),
    (0.08621231547488138, 0.9452710327447896, 0.0862123154748802),
]


def judged(width, x, y, radii, shape="rectangle"):
    return TASK.score((width, x, y, radii), Case("any", {"n": len(x), "shape": shape}))


def is_valid(width, x, y, radii):
    """Check a packing pair by pair in rational arithmetic."""
    w, x, y, radii = Fraction(width), *([Fraction(float(v)) for v in p] for p in (x, y, radii))
    inside = all(
        r >= 0 and r <= a <= w - r and r <= b <= 2 - w - r
        for a, b, r in zip(x, y, radii, strict=True)
    )
    apart = all(
        (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 >= (radii[i] + radii[j]) ** 2
        for i, j in combinations(range(len(x)), 2)
    )
    return inside and apart


def test_touching_circles_in_a_flat_rectangle_are_exact():
    # 0.5 x 1.5: three circles of radius 1/4 in a column touch walls and each other exactly.
    scores = judged(0.5, [0.25] * 3, [0.25, 0.75, 1.25], [0.25] * 3)
    assert scores["any"] == 0.75
    assert scores["evenness"] == 1.0
    assert scores["shrunk_by"] == 0.0
    assert scores["width_any"] == 0.5


def test_32_circles_in_closed_form():
    # A 6 x 5 grid of equal circles, and two in holes between four of them.
    r = 1 / 12
    x = np.append((2 * np.arange(30) % 12 + 1) * r, [2 * r, 4 * r])
    y = np.append((np.arange(30) // 6 * 2 + 1) * r, [2 * r, 2 * r])
    hole = r * (math.sqrt(2) - 1)
    radii = np.append(np.full(30, r), [hole, hole])
    scores = TASK.score((1, x, y, radii), TASK.case("square_32"))
    assert scores["square_32"] == pytest.approx(30 * r + 2 * hole, abs=1e-13)
    assert scores["evenness"] == pytest.approx(hole * 32 / (30 * r + 2 * hole), abs=1e-13)
    assert scores["shrunk_by"] < 1e-15


def test_a_good_packing_of_21_is_below_the_best_in_print():
    x, y, radii = np.array(CIRCLES_21).T
    scores = TASK.score((WIDTH, x, y, radii), TASK.case("rectangle_21"))
    best, _ = TASK.best_known["rectangle_21"]
    assert 0.995 * best < scores["rectangle_21"] < best
    assert scores["shrunk_by"] < 1e-12
    assert is_valid(WIDTH, x, y, JUDGE.fit(WIDTH, x, y, radii))
    # Pushed by 1e-8 it overlaps, and is cut by as much.
    moved = x.copy()
    moved[3] += 1e-8
    assert not is_valid(WIDTH, moved, y, radii)
    assert is_valid(WIDTH, moved, y, JUDGE.fit(WIDTH, moved, y, radii))
    cut = TASK.score((WIDTH, moved, y, radii), TASK.case("rectangle_21"))
    assert scores["rectangle_21"] - 1e-7 < cut["rectangle_21"] < scores["rectangle_21"]
    assert 1e-10 < cut["shrunk_by"] < 1e-7


@pytest.mark.parametrize("seed", range(20))
def test_what_is_scored_is_always_valid(seed):
    rng = np.random.default_rng(seed)
    n, width = 21, float(rng.uniform(0.5, 1.5))
    x, y = rng.uniform(0, width, n), rng.uniform(0, 2 - width, n)
    distance = np.hypot(x[:, None] - x, y[:, None] - y) + 9 * np.eye(n)
    wall = np.minimum(np.minimum(x, width - x), np.minimum(y, 2 - width - y))
    radii = np.minimum(wall, distance.min(axis=1) / 2) * (0.99 if seed % 2 else 1.01)
    fitted = JUDGE.fit(width, x, y, radii)
    assert is_valid(width, x, y, fitted)
    assert (fitted <= radii).all()
    assert (fitted > 0).all()
    if is_valid(width, x, y, radii):
        assert fitted is radii


def test_the_height_is_exactly_two_minus_the_width():
    # 2 - 0.1 rounds: on which side the exact height lies decides, not the float.
    width = 1.9
    for radius in (0.05, math.nextafter(0.05, 0), math.nextafter(0.05, 1)):
        x, y, radii = np.array([0.5]), np.array([0.05]), np.array([radius])
        assert (JUDGE.clashes(width, x, y, radii) == []) == is_valid(width, x, y, radii)


GOOD = [0.25, 0.75]


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not (width, x, y, radii)"),
        ((GOOD, GOOD, GOOD), "not (width, x, y, radii)"),
        ((GOOD, GOOD, GOOD, GOOD), "width is not"),
        (("1", GOOD, GOOD, GOOD), "width is not"),
        ((math.nan, GOOD, GOOD, GOOD), "width holds a number that is not finite"),
        ((0.0, GOOD, GOOD, GOOD), "between 0 and 2"),
        ((2.0, GOOD, GOOD, GOOD), "between 0 and 2"),
        ((1e300, GOOD, GOOD, GOOD), "between 0 and 2"),
        ((1.0, GOOD, GOOD, [0.1]), "radii is not a flat sequence of 2 numbers"),
        ((1.0, GOOD, [[0.2], [0.3, 0.4]], GOOD), "y is not a flat sequence"),
        ((1.0, ["0.2", "0.3"], GOOD, GOOD), "x is not a flat sequence"),
        ((1.0, [10**400, 0.2], GOOD, GOOD), "x is not a flat sequence"),
        ((1.0, [math.nan, 0.2], GOOD, GOOD), "not finite"),
        ((1.0, GOOD, GOOD, [math.inf, 0.1]), "not finite"),
        ((1.0, [1e300, 0.2], GOOD, [0.1, 0.1]), "centre of circle 0 lies outside"),
        ((1.5, GOOD, [0.2, 0.6], [0.1, 0.1]), "centre of circle 1 lies outside"),
        ((1.0, GOOD, GOOD, [0.1, -0.1]), "radius of circle 1 is negative"),
        ((1.0, [0.5, 0.5], [0.5, 0.5], [0.1, 0.1]), "circle 0 lies inside another"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, Case("any", {"n": 2, "shape": "rectangle"}))
    assert says in str(caught.value)


def test_a_square_is_a_square():
    with pytest.raises(Invalid, match="a square of perimeter 4 has 1"):
        judged(1.0000001, GOOD, GOOD, [0.1, 0.1], "square")
