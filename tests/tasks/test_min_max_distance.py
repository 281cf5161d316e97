"""The distance judge against figures with known ratios and published values."""

import itertools
import math

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.constructions import RATIO_14_3, RATIO_16_2

TASK = load_task("min_max_distance")


def judged(points):
    n, d = np.shape(points)
    scores = TASK.score(points, Case("any", {"n": n, "d": d}))
    return scores[f"ratio_{n}_{d}"]


def polygon(n):
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def test_a_grid_is_exact():
    grid = list(itertools.product(range(4), repeat=2))
    assert judged(np.array(grid)) == 18.0
    cube = np.array(list(itertools.product([-1.5, 1.5], repeat=3)))
    assert judged(cube) == 3.0
    # Scale and place do not matter, and powers of two change no bit.
    assert judged(cube * 2.0**-300 + 2.0**-290) == 3.0


@pytest.mark.parametrize(
    ("points", "ratio"),
    [
        # Diagonal over side: the golden ratio, squared.
        (polygon(5), (3 + math.sqrt(5)) / 2),
        # A hexagon with its centre: diameter over side.
        (np.vstack([polygon(6), [[0, 0]]]), 4.0),
        # An icosahedron: 2 sin(2 pi / 5) squared, diameter over edge.
        (
            np.array(
                [
                    np.roll([0, a, b * (1 + math.sqrt(5)) / 2], k)
                    for a in (-1, 1)
                    for b in (-1, 1)
                    for k in range(3)
                ]
            ),
            4 * math.sin(2 * math.pi / 5) ** 2,
        ),
    ],
)
def test_figures_with_a_known_ratio(points, ratio):
    assert judged(points) == pytest.approx(ratio, rel=1e-14)


@pytest.mark.parametrize(
    ("points", "published", "name"),
    [(RATIO_16_2, 12.889266, "ratio_16_2"), (RATIO_14_3, 4.165850, "ratio_14_3")],
)
def test_constructions_at_the_published_values(points, published, name):
    ratio = judged(points)
    # Better than AlphaEvolve's in the last printed digits, and not absurdly better.
    assert published - 1e-4 < ratio < published
    assert ratio <= TASK.best_known[name][0]
    assert ratio == pytest.approx(TASK.best_known[name][0], abs=1e-9)
    # The same by plain floating point.
    x = np.array(points)
    squares = [float(((p - q) ** 2).sum()) for p, q in itertools.combinations(x, 2)]
    assert ratio == pytest.approx(max(squares) / min(squares), rel=1e-12)


def test_a_perturbed_construction_is_worse():
    moved = np.array(RATIO_16_2)
    moved[3, 0] += 1e-8
    assert judged(moved) > judged(RATIO_16_2)


def test_tight_pairs_are_counted_by_hand():
    # A square: four sides at the smallest distance, two diagonals at the largest.
    square = TASK.score([[0, 0], [0, 1], [1, 0], [1, 1]], Case("any", {"n": 4, "d": 2}))
    assert square == {"ratio_4_2": 2.0, "tight_pairs": 1.0}
    line = TASK.score([[0], [1], [3]], Case("any", {"n": 3, "d": 1}))
    assert line == {"ratio_3_1": 9.0, "tight_pairs": pytest.approx(2 / 3)}


GOOD = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "shape (3, 2)"),
        ("points", "shape (3, 2)"),
        ({"points": GOOD}, "shape (3, 2)"),
        (GOOD[:2], "shape (3, 2)"),
        (np.zeros((3, 3)), "shape (3, 2)"),
        ([[0.0, 0.0], [0.0], [1.0, 0.0]], "shape (3, 2)"),
        ([["0", "0"], ["0", "1"], ["1", "0"]], "shape (3, 2)"),
        (np.zeros((3, 2), dtype=bool), "shape (3, 2)"),
        (np.zeros((3, 2), dtype=complex), "shape (3, 2)"),
        ([[10**400, 0], [0, 1], [1, 0]], "shape (3, 2)"),
        ([[math.nan, 0.0], [0.0, 1.0], [1.0, 0.0]], "not finite"),
        ([[math.inf, 0.0], [0.0, 1.0], [1.0, 0.0]], "not finite"),
        ([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]], "two points coincide"),
        ([[0.0, 0.0], [0.0, -0.0], [1e300, 0.0]], "two points coincide"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, Case("any", {"n": 3, "d": 2}))
    assert says in str(caught.value)


def test_huge_and_tiny_coordinates_are_judged_exactly():
    far = judged([[1e300, 0.0], [0.0, 5e-324], [0.0, 0.0]])
    assert far == 1e9
    assert judged([[1e300, 0.0], [0.0, 1e300], [0.0, 0.0]]) == 2.0
    assert judged([[5e-324, 0.0], [0.0, 5e-324], [0.0, 0.0]]) == 2.0
