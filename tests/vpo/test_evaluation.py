"""Search at inference against enumeration."""

import itertools
import math

import numpy as np
import pytest

from vpo.evaluation import (
    best_at,
    best_under,
    majority,
    pairwise_l1,
    pareto_front,
    pass_at,
    quality_curves,
    search,
    set_curve,
)
from vpo.utility import set_utility

RNG = np.random.default_rng(0)


def enumerated_best(values, size):
    return np.mean([max(subset) for subset in itertools.combinations(values, size)])


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_best_at_is_the_mean_over_all_subsets(n):
    values = RNG.normal(size=n).round(1)  # rounding makes ties
    sizes = range(1, n + 1)
    expected = [enumerated_best(values, size) for size in sizes]
    np.testing.assert_allclose(best_at(values, sizes), expected, atol=1e-12)


def test_best_at_is_unbiased():
    """Over all samples of three from a die, the estimate for two averages to the truth."""
    faces = np.array([0.1, 0.1, 0.4, 0.9])
    truth = np.mean([max(pair) for pair in itertools.product(faces, repeat=2)])
    samples = np.array(list(itertools.product(faces, repeat=3)))
    assert best_at(samples, [2]).mean() == pytest.approx(truth, abs=1e-12)
    # The plug-in estimate, the best of pairs drawn with replacement from the sample, is not.
    plug_in = [max(p) for row in samples for p in itertools.product(row, repeat=2)]
    assert np.mean(plug_in) < truth - 0.01


def test_best_at_takes_many_prompts_and_large_samples():
    batch = RNG.random((3, 4, 6))
    got = best_at(batch, [1, 6])
    assert got.shape == (3, 4, 2)
    np.testing.assert_allclose(got[..., 0], batch.mean(-1), atol=1e-12)
    np.testing.assert_allclose(got[..., 1], batch.max(-1), atol=1e-12)
    # C(5000, 2500) has no float64; uniform order statistics have the mean s / (s + 1).
    grid = (np.arange(5000) + 1) / 5001
    assert best_at(grid, [2500])[0] == pytest.approx(2500 / 2501, abs=1e-9)


@pytest.mark.parametrize(("n", "correct", "size"), [(10, 3, 1), (10, 3, 4), (10, 0, 2), (5, 5, 5)])
def test_pass_at_by_binomials(n, correct, size):
    expected = 1.0 - math.comb(n - correct, size) / math.comb(n, size)
    assert pass_at(n, correct, size) == pytest.approx(expected, abs=1e-12)
    binary = [1.0] * correct + [0.0] * (n - correct)
    assert best_at(binary, [size])[0] == pytest.approx(expected, abs=1e-12)


def test_quality_curves_by_answer_rollout_and_token():
    rewards = [RNG.random((m, 3)) for m in (2, 1, 3)] + [np.zeros((0, 3))]
    curves = quality_curves(rewards, [1, 2, 4, 5, 7], tokens=[10, 20, 30, 20])
    answers = np.concatenate([matrix.mean(axis=1) for matrix in rewards])
    best = [matrix.mean(axis=1).max() if len(matrix) else 0.0 for matrix in rewards]
    expected = [enumerated_best(answers, s) for s in (1, 2, 4, 5)] + [math.nan]
    np.testing.assert_allclose(curves.by_answer, expected, atol=1e-12)
    expected = [enumerated_best(best, s) for s in (1, 2, 4)] + [math.nan] * 2
    np.testing.assert_allclose(curves.by_rollout, expected, atol=1e-12)
    np.testing.assert_allclose(curves.tokens, [20, 40, 80, 100, 140])
    weights = [1.0, 0.0, 0.0]
    first = quality_curves(rewards, [6], weights=weights).by_answer[0]
    assert first == max(matrix[:, 0].max(initial=0) for matrix in rewards)
    assert np.isnan(quality_curves(rewards, [1]).tokens).all()


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_set_curves_are_means_of_set_utilities(k):
    rows = RNG.random((6, k))
    sizes = [1, 2, 3, 5, 6]
    curve = set_curve(rows, sizes, n_weights=1 << 12)
    for size, value, error in zip(sizes, curve.value, curve.standard_error, strict=True):
        subsets = np.array([rows[list(s)] for s in itertools.combinations(range(6), size)])
        truth = set_utility(subsets, n_weights=1 << 14, seed=9).value.mean()
        assert value == pytest.approx(truth, abs=max(1e-9, 4 * error))
        assert error < 1e-3
    assert (np.diff(curve.value) >= -1e-9).all()


def test_set_curves_take_the_options_of_the_utility():
    rows = RNG.random((4, 3))
    for options in ({"alpha": 0.3}, {"scalarizer": "chebyshev"}, {"scalarizer": "hypervolume"}):
        curve = set_curve(rows, [4], n_weights=1 << 12, **options)
        assert curve.value[0] == pytest.approx(float(set_utility(rows, **options).value), abs=2e-3)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_pairwise_l1_by_all_pairs(n):
    rows = RNG.random((n, 4)).round(1)
    pairs = [np.abs(a - b).sum() for a, b in itertools.combinations(rows, 2)]
    assert pairwise_l1(rows) == pytest.approx(np.mean(pairs), abs=1e-12)


def test_one_answer_has_no_spread():
    assert pairwise_l1([[0.3, 0.4]]) == 0.0
    assert pairwise_l1(np.ones((5, 2))) == 0.0


def test_pareto_front_by_comparing_all():
    rows = RNG.integers(0, 3, (12, 3)).astype(float)
    front = pareto_front(rows)
    for i, row in enumerate(rows):
        beaten = any((other >= row).all() and (other > row).any() for other in rows)
        earlier = any((rows[j] == row).all() for j in range(i))
        assert (i in front) == (not beaten and not earlier)


def test_best_under_weights():
    rows = [[0.9, 0.1], [0.6, 0.6], [0.1, 0.9]]
    assert best_under(rows) == 1
    assert best_under(rows, [1, 0]) == 0
    assert best_under(rows, [0.1, 0.9]) == 2


def test_votes():
    assert majority(["7", "8", "7", "9"]) == ("7", 0.5)
    assert majority(["8", "7"]) == ("8", 0.5)
    winner, share = majority(["7", "8", "7"], [0.1, 0.9, 0.2])
    assert (winner, share) == ("8", pytest.approx(0.75))


def test_search_scores_all_and_chooses():
    asked = []

    def generate(n):
        asked.append(n)
        return [len(asked) * 10 + i for i in range(min(n, 2))]

    def score(answer):
        return [answer % 10, 0.5]

    found = search(generate, score, 5)
    assert asked == [5, 3, 1]
    assert found.answers == (10, 11, 20, 21, 30)
    np.testing.assert_array_equal(found.rewards[:, 0], [0, 1, 0, 1, 0])
    assert found.chosen == 1
    last = search(generate, score, 1, choose=lambda rewards: len(rewards) - 1)
    assert last.chosen == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: best_at([0.1, 0.2], [3]), "size is 3, 1 to 2"),
        (lambda: best_at([0.1, 0.2], [0]), "size is 0, 1 to 2"),
        (lambda: pass_at(4, 5, 1), "correct is 5, 0 to 4"),
        (lambda: set_curve(np.eye(3), [4]), "size is 4"),
        (lambda: majority([]), "no answers"),
        (lambda: majority(["a"], [-1.0]), "at least 0"),
        (lambda: majority(["a", "b"], [1.0]), "2 numbers"),
        (lambda: search(lambda _: [], lambda _: [0.0], 2), "0 of 2"),
        (lambda: search(lambda n: [1] * (n + 1), lambda _: [0.0], 2), "3 of 2"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
