"""Counting sums and differences: closed forms, brute force, and sets that are none."""

import math
from itertools import product

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module

TASK = load_task("sums_differences")
JUDGE = judge_module("sums_differences")


def judged(members, limit=1000):
    return TASK.score(members, Case("it", {"limit": limit}))["it"]


def simplex(digits, base, most):
    """Numbers with so many digits in a base whose digit sum is at most ``most``."""
    every = product(range(most + 1), repeat=digits)
    return sorted(
        {sum(d * base**i for i, d in enumerate(word)) for word in every if sum(word) <= most}
    )


def test_small_sets_by_hand():
    # {0, 1, 3}: sums 0 1 2 3 4 6, differences -3..3.
    assert judged([0, 1, 3]) == pytest.approx(1 + math.log(7 / 6) / math.log(7), abs=2e-15)
    # A progression has as many sums as differences.
    assert judged(range(10)) == pytest.approx(1.0, abs=2e-15)
    assert judged([0, 1]) == pytest.approx(1.0, abs=2e-15)


def test_the_set_with_more_sums_than_differences_counts_against_itself():
    # J. H. Conway's example, 26 sums and 25 differences.
    conway = np.array([0, 2, 3, 4, 7, 11, 12, 14])
    assert JUDGE.counts(conway) == (26, 25)
    assert judged(conway) < 1.0


@pytest.mark.parametrize("seed", range(10))
def test_counts_agree_with_brute_force(seed):
    rng = np.random.default_rng(seed)
    members = np.unique(np.append(0, rng.integers(0, 10 ** int(rng.integers(2, 12)), 30)))
    plain = members.tolist()
    expected = (
        len({a + b for a in plain for b in plain}),
        len({a - b for a in plain for b in plain}),
    )
    assert JUDGE.counts(members) == expected


@pytest.mark.parametrize(("digits", "most"), [(2, 2), (2, 5), (3, 2), (3, 4), (4, 3)])
def test_simplices_have_as_many_sums_and_differences_as_theory_says(digits, most):
    # In a base without carries sums fill the simplex of twice the size: C(2m + d, d); a difference
    # has its positive part on j of the digits, with sum at most m, and the negative one likewise.
    members = np.array(simplex(digits, 2 * most + 1, most))
    differences = sum(
        math.comb(digits, j) * math.comb(most, j) * math.comb(most + digits - j, digits - j)
        for j in range(digits + 1)
    )
    assert JUDGE.counts(members) == (math.comb(2 * most + digits, digits), differences)


@pytest.mark.parametrize(
    ("name", "digits", "base", "most"),
    [("up_to_16", 4, 4, 2), ("up_to_100", 6, 4, 3), ("up_to_1000", 7, 6, 5)],
)
def test_the_best_known_sets_are_rebuilt(name, digits, base, most):
    members = simplex(digits, base, most)
    value, _ = TASK.best_known[name]
    assert judged(members, TASK.case(name).given["limit"]) == pytest.approx(value, abs=1e-5)


def test_the_figure_is_rounded_downwards():
    # 50 digits of 1 + log(7/6) / log(7), by series that share nothing with math.log.
    from decimal import Decimal, getcontext

    getcontext().prec = 50
    exact = 1 + (Decimal(7) / 6).ln() / Decimal(7).ln()
    assert exact - Decimal("3e-15") < Decimal(judged([0, 1, 3])) <= exact


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not a flat sequence"),
        ([], "not a flat sequence"),
        ([[0, 1], [2, 3]], "not a flat sequence"),
        ([[0, 1], [2]], "not a flat sequence"),
        ([0.0, 1.0], "not a flat sequence"),
        ([0, math.nan], "not a flat sequence"),
        ([0, math.inf], "not a flat sequence"),
        (["0", "1"], "not a flat sequence"),
        ([0, 10**400], "not a flat sequence"),
        ([False, True], "not a flat sequence"),
        ([0], "1 numbers, 2 to 4"),
        ([0, 1, 2, 3, 4], "5 numbers, 2 to 4"),
        ([0, -1], "lies outside"),
        ([0, 2**50], "lies outside"),
        ([0, 2**63], "not a flat sequence"),
        ([0, 1, 1], "comes twice"),
        ([1, 2], "0 is missing"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        judged(output, 4)
    assert says in str(caught.value)
