"""The overlap judge against closed forms, small partitions by brute force, and what is in print."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module

TASK = load_task("erdos_overlap")
JUDGE = judge_module("erdos_overlap")

# Found by SLSQP; symmetric up to rounding.
FEW = [
    *(1.0, 0.6213480765377851, 0.5282119308226924, 0.4484345482590238),
    *(0.27871628952637967, 0.16435088324894853, 0.022471799511447826, 0.33847191647422004),
    *(0.4484345482590221, 0.5282119308226936, 0.6213480765377857, 1.0),
]
# Which of the numbers 1 to 60 are in the first set: no difference between the sets comes 14 times.
SETS = "111110111101010100100000000110000001001011000010011101111111"


def judged(name, heights, steps=None):
    case = TASK.case(name) if steps is None else Case(name, {"steps": steps})
    return TASK.score(heights, case)


def most_frequent(first, n):
    """How often the most frequent difference between a set and its complement comes."""
    rest = [b for b in range(2 * n) if b not in first]
    differences = [a - b for a in first for b in rest]
    return max(map(differences.count, set(differences)))


def test_the_constant_and_the_block_are_known_in_closed_form():
    for n in (2, 12, 200):
        # 1/2 everywhere: 1/4 over a length of 2 at shift 0.
        assert judged("many_steps", np.full(n, 0.5), n)["many_steps"] == 0.5
    # 1 in the middle half: shifted by half of that, its half lies on the complement.
    block = [0.0] * 5 + [1.0] * 10 + [0.0] * 5
    assert judged("many_steps", block, 20)["many_steps"] == 0.5


@pytest.mark.parametrize(("n", "least"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)])
def test_the_best_partitions_are_those_of_the_literature(n, least):
    # R. K. Guy, "Unsolved problems in number theory", C17: M(n) = 1, 1, 2, 2, 3, 3, ...
    found = []
    for first in combinations(range(2 * n), n):
        heights = np.zeros(2 * n)
        heights[list(first)] = 1.0
        value = judged("sets", heights, 2 * n)["sets"]
        assert value == JUDGE.rounded_up(Fraction(most_frequent(first, n), n))
        found.append(value)
    assert min(found) == JUDGE.rounded_up(Fraction(least, n))


def test_published_bounds_are_respected_by_the_best_known_constructions():
    few = judged("few_steps", FEW)
    assert few["few_steps"] == pytest.approx(TASK.best_known["few_steps"][0], abs=1e-8)
    assert few["moved_few_steps"] < 1e-8
    sets = judged("sets", [float(digit) for digit in SETS])
    assert sets["sets"] == JUDGE.rounded_up(Fraction(13, 30))
    assert sets["sets"] == pytest.approx(TASK.best_known["sets"][0], abs=1e-8)
    # No bound can be below the proved one (White, 2022); a judge that says so is wrong.
    assert min(few["few_steps"], sets["sets"]) > 0.379005
    nudged = list(FEW)
    nudged[3] -= 0.01
    assert judged("few_steps", nudged)["few_steps"] > few["few_steps"]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_judged_is_valid_and_exact(seed):
    rng = np.random.default_rng(seed)
    n = 2 * int(rng.integers(1, 20))
    heights = rng.uniform(0, 1, n) ** rng.choice([0.1, 1, 10])
    units = JUDGE.balanced(heights)
    assert all(type(u) is int and 0 <= u <= JUDGE.GRID for u in units)
    assert sum(units) == n * JUDGE.GRID // 2
    shifts = range(-n + 1, n)
    exact = max(
        sum(Fraction(units[i] * (JUDGE.GRID - units[i + k]), JUDGE.GRID**2)
            for i in range(n) if 0 <= i + k < n)
        for k in shifts
    ) * Fraction(2, n)  # fmt: skip
    assert JUDGE.overlap(units, JUDGE.GRID) == exact
    value = judged("many_steps", heights, n)["many_steps"]
    assert exact <= Fraction(value) < exact + Fraction(1, 10**15)


def test_between_whole_shifts_the_overlap_is_no_larger():
    rng = np.random.default_rng(1)
    h = rng.uniform(0, 1, 8)
    fine = np.repeat(h, 16)
    coarse, finer = (
        JUDGE.overlap(np.array([int(v * 2**20) for v in part], dtype=object), 2**20)
        for part in (h, fine)
    )
    assert coarse == finer


def test_all_zeros_and_all_ones_are_moved_to_the_mean():
    for level in (0.0, 1.0):
        scores = judged("few_steps", np.full(12, level))
        assert scores["few_steps"] == 0.5
        assert scores["moved_few_steps"] == 0.5


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not a flat sequence of 4 numbers"),
        ([0.5] * 3, "not a flat sequence of 4 numbers"),
        ([[0.5]] * 4, "not a flat sequence of 4 numbers"),
        ([[0.5], [0.5, 1.0], 1, 0], "not a flat sequence"),
        (["1"] * 4, "not a flat sequence"),
        ([True] * 4, "not a flat sequence"),
        ([10**400, 0, 0, 0], "not a flat sequence"),
        ([math.nan, 0, 0, 0], "not finite"),
        ([math.inf, 0, 0, 0], "not finite"),
        ([1.0000001, 0, 0, 0], "outside 0..1"),
        ([-1e-12, 0, 0, 0], "outside 0..1"),
        ([1e300, 0, 0, 0], "outside 0..1"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    for name in TASK.best_known:
        with pytest.raises(Invalid) as caught:
            judged(name, output, 4)
        assert says in str(caught.value)
