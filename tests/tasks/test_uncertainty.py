"""The uncertainty judge against scipy, sympy, numerical transforms and the literature."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy
from scipy.integrate import quad
from scipy.special import eval_genlaguerre

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module

TASK = load_task("uncertainty")
JUDGE = judge_module("uncertainty")

BEST = {
    "roots_1": [5.0236725],
    "roots_2": [5.062222014724664, 5.0622077007087345],
    "roots_3": [4.893561521267285, 11.018671020686593, 28.381910041961213],
}


def judged(places):
    case = Case("it", {"n": len(places)})
    return TASK.score(places, case)["it"]


def full(places):
    """Coefficients of P, constant first, in fractions."""
    exact = [Fraction(round(v * JUDGE.GRID), JUDGE.GRID) for v in places]
    p = JUDGE.touching(exact)
    for root in (Fraction(0), *exact, *exact):
        p = [a - root * b for a, b in zip([Fraction(0), *p], [*p, Fraction(0)], strict=True)]
    return p


def test_laguerre_polynomials_agree_with_scipy():
    for degree in (0, 1, 2, 5, 10):
        for z in (0.0, 0.5, 3.0, 11.0):
            ours = float(JUDGE.value(JUDGE.laguerre(degree), Fraction(z)))
            assert ours == pytest.approx(eval_genlaguerre(degree, -0.5, z), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", BEST)
def test_the_function_is_its_own_transform_touches_zero_and_stays_positive(name):
    places = BEST[name]
    p = [float(c) for c in full(places)]

    def f(x):
        z = 2 * math.pi * x * x
        return np.polyval(p[::-1], z) * math.exp(-z / 2)

    scale = max(abs(f(x)) for x in np.linspace(0, 3, 300))
    assert abs(f(0.0)) < 1e-9 * scale
    for frequency in (0.0, 0.3, 0.8):
        wave = quad(
            lambda x, k=frequency: f(x) / scale * math.cos(2 * math.pi * k * x), 0, 6, limit=200
        )
        transform = 2 * scale * wave[0]
        assert transform == pytest.approx(f(frequency), abs=1e-6 * scale)
    last = math.sqrt(judged(places))
    assert f(last - 1e-3) < 0 < f(last + 1e-3)
    assert min(f(x) for x in np.linspace(last + 1e-6, 5, 4000)) > -1e-9 * scale


def test_one_double_root_gives_the_published_constant():
    best = judged(BEST["roots_1"])
    # Goncalves, Oliveira e Silva and Steinerberger: 0.3523; AlphaEvolve, first version: 0.3521.
    assert best == pytest.approx(0.3521, abs=5e-5)
    assert best == pytest.approx(TASK.best_known["roots_1"][0], abs=1e-7)
    assert best < judged([BEST["roots_1"][0] + 0.01])
    assert best < judged([BEST["roots_1"][0] - 0.01])


@pytest.mark.parametrize("name", ["roots_2", "roots_3"])
def test_the_other_best_known_values_are_rebuilt(name):
    assert judged(BEST[name]) == pytest.approx(TASK.best_known[name][0], abs=1e-7)
    assert judged(BEST[name][::-1]) == judged(BEST[name])


@pytest.mark.parametrize("seed", range(8))
def test_the_last_root_agrees_with_sympy(seed):
    rng = np.random.default_rng(seed)
    p = [Fraction(int(v)) for v in rng.integers(-9, 10, 6)] + [Fraction(int(rng.integers(1, 5)))]
    z = sympy.symbols("z")
    roots = sympy.Poly([int(c) for c in p[::-1]], z).real_roots()
    expected = max([0.0, *(float(root) for root in roots)])
    found = JUDGE.last_root(p)
    assert expected - 1e-15 <= float(found) <= expected + 1e-11


def test_roots_known_in_closed_form():
    # (z - 1)(z - 3), z^2 - 2, (z - 2)^2 whose root counts though the sign stays, z^2 + 1.
    assert JUDGE.last_root([Fraction(3), Fraction(-4), Fraction(1)]) == pytest.approx(3, abs=1e-11)
    root = JUDGE.last_root([Fraction(-2), Fraction(0), Fraction(1)])
    assert root**2 > 2
    assert float(root) == pytest.approx(math.sqrt(2), abs=1e-11)
    assert JUDGE.last_root([Fraction(4), Fraction(-4), Fraction(1)]) == pytest.approx(2, abs=1e-11)
    assert JUDGE.last_root([Fraction(1), Fraction(0), Fraction(1)]) < 1e-11


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not a flat sequence of 2 numbers"),
        ([5.0], "not a flat sequence of 2 numbers"),
        ([[5.0, 6.0]], "not a flat sequence"),
        ([[5.0], [6.0, 7.0]], "not a flat sequence"),
        (["5", "6"], "not a flat sequence"),
        ([True, False], "not a flat sequence"),
        ([10**400, 1], "not a flat sequence"),
        ([math.nan, 5.0], "does not lie between 0 and 200"),
        ([math.inf, 5.0], "does not lie between 0 and 200"),
        ([-1.0, 5.0], "does not lie between 0 and 200"),
        ([0.0, 5.0], "does not lie between 0 and 200"),
        ([1e300, 5.0], "does not lie between 0 and 200"),
        ([5.0, 5.0], "two numbers coincide"),
        ([1e-9, 5.0], "one is nearly 0"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, Case("it", {"n": 2}))
    assert says in str(caught.value)
