"""The autoconvolution judge against closed forms and numerical integration."""

import math

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module

TASK = load_task("autocorrelation")
JUDGE = judge_module("autocorrelation")


def judged(heights, inequality):
    return TASK.score(heights, Case("any", {"inequality": inequality}))["any"]


@pytest.mark.parametrize("n", [1, 2, 7, 600])
def test_the_constant_function_in_closed_form(n):
    # f * f is a triangle of height 1/2 on [-1/2, 1/2] for f = 1, whose integral is 1/2: the bound
    # is 1/2 / (1/2)^2; the square of the triangle has integral 2 (1/2)^3 / 3.
    assert judged(np.ones(n), 1) == 2.0
    assert judged(np.ones(n), 3) == 2.0
    assert judged(np.ones(n), 2) == pytest.approx(2 / 3, abs=1e-15)


def test_two_steps_by_hand():
    # Heights 2, 1: the convolution is 4, 4, 1 at the nodes.
    assert judged([2, 1], 1) == pytest.approx(2 * 2 * 4 / 9)
    # Sums over the pieces 0-4, 4-4, 4-1, 1-0: 16 + 48 + (16 + 4 + 1) + 1 = 86.
    assert judged([2, 1], 2) == pytest.approx(86 / (3 * 9 * 4))
    # Heights 2, -1: 4, -4, 1.
    assert judged([2, -1], 3) == pytest.approx(2 * 2 * 4 / 1)


def test_schinzel_and_schmidts_function_comes_near_pi_over_2():
    # f(x) = 1 / sqrt(2x + 1/2) has max f * f / (integral f)^2 = pi / 2 (Schinzel and Schmidt 2002);
    # its values in the middle of the steps come nearer the more steps there are.
    bounds = [judged(1 / np.sqrt(np.arange(n) + 0.5), 1) for n in (60, 150, 600)]
    assert bounds == sorted(bounds, reverse=True)
    assert math.pi / 2 < bounds[-1] < 1.01 * math.pi / 2


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_integration_on_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    n, fine = 12, 200
    heights = rng.random(n)
    signed = heights - 0.3
    for values, which in ((heights, 1), (heights, 2), (signed, 3)):
        f = np.repeat(values, fine)
        step = 0.5 / len(f)
        conv = np.convolve(f, f) * step
        if which == 2:
            expected = (conv**2).sum() / (np.abs(conv).sum() * np.abs(conv).max())
        else:
            expected = np.abs(conv).max() / (f.sum() * step) ** 2
        assert judged(values, which) == pytest.approx(expected, rel=2e-3)


def test_scale_does_not_matter_and_nothing_beats_what_is_proved():
    rng = np.random.default_rng(0)
    for _ in range(20):
        heights = rng.random(50) ** 3
        # Lower bounds for any f: 1.28 (Cloninger and Steinerberger 2017); the second is below 1.
        assert judged(heights, 1) > 1.28
        assert judged(heights, 2) < 1.0
        for scale in (2.0**-900, 2.0**900):
            assert judged(heights * scale, 1) == judged(heights, 1)


def test_heights_are_rounded_to_a_grid_that_no_float_feels():
    heights = np.random.default_rng(1).random(30)
    assert judged(heights, 1) == pytest.approx(
        60 * np.convolve(heights, heights).max() / heights.sum() ** 2, rel=1e-11
    )


def test_gaps_and_steps_are_counted():
    scores = TASK.score([1, 0, 0, 1e-4], Case("any", {"inequality": 1}))
    assert scores["gaps"] == 0.75
    assert scores["steps"] == 4.0


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not a flat sequence"),
        (3.0, "not a flat sequence"),
        ("heights", "not a flat sequence"),
        ({}, "not a flat sequence"),
        ([[1.0, 2.0]], "not a flat sequence"),
        ([1.0, [2.0]], "not a flat sequence"),
        (["1"], "not a flat sequence"),
        ([True], "not a flat sequence"),
        ([1j], "not a flat sequence"),
        ([10**400], "not a flat sequence"),
        (np.ones(601), "601 heights, 1 to 600 are allowed"),
        (np.ones(0), "0 heights"),
        ([math.nan, 1.0], "not finite"),
        ([math.inf, 1.0], "not finite"),
        ([0.0, 0.0], "integral of the function is zero"),
        ([1.0, -1e-9], "a height is negative"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, TASK.case("first"))
    assert says in str(caught.value)


def test_an_integral_of_zero_is_refused_where_signs_are_allowed():
    with pytest.raises(Invalid, match="integral of the function is zero"):
        TASK.score([1.0, -1.0], TASK.case("third"))
    # Nearly zero is merely bad, and finite.
    assert TASK.score([1.0, -1.0 + 1e-9], TASK.case("third"))["third"] == 1e9
    assert judged([1e308, 1e-308], 1) == 4.0
