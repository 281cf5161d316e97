"""Rewards on one scale: hand-worked values, and what the scale does to the set utility."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from vpo.scales import RunningScale, by_bounds, by_rank
from vpo.utility import set_utility


def test_bounds_map_worst_to_zero_and_best_to_one():
    rows = [np.array([[5.0, 200.0], [20.0, 50.0]]), np.zeros((0, 2))]
    got = by_bounds(rows, [0.0, 150.0], [10.0, 50.0])  # of the second reward less is better
    np.testing.assert_allclose(got[0], [[0.5, 0.0], [1.0, 1.0]])
    assert got[1].shape == (0, 2)


def test_a_reward_of_large_numbers_takes_over_unless_it_is_scaled():
    # Two specialists, the second measured in other units.
    sets = np.array([[[1.0, 0.0], [0.0, 100.0]], [[0.0, 100.0], [0.0, 100.0]]])
    raw = set_utility(sets)
    assert raw.specialisation[0] / raw.value[0] < 0.01
    scaled = set_utility(by_bounds(sets, [0, 0], [1, 100]))
    assert scaled.specialisation[0] / scaled.value[0] > 0.3


def test_ranks_are_within_the_prompt():
    rows = [[[3.0, 1.0]], [[1.0, 1.0], [2.0, 1.0]], [], [[50.0, 7.0]]]
    got = by_rank(rows, [0, 0, 0, 1])
    np.testing.assert_allclose(got[0], [[1.0, 0.5]])
    np.testing.assert_allclose(got[1], [[0.0, 0.5], [0.5, 0.5]])
    assert got[2].size == 0
    np.testing.assert_allclose(got[3], [[0.5, 0.5]])


def test_ranks_survive_any_monotone_distortion():
    rng = np.random.default_rng(0)
    rows, ids = rng.random((12, 3, 4)), np.repeat([0, 1, 2], 4)
    for one, two in zip(by_rank(rows, ids), by_rank(np.exp(9 * rows), ids), strict=True):
        np.testing.assert_array_equal(one, two)


def test_running_bounds_settle_at_the_quantiles():
    rng = np.random.default_rng(1)
    scale = RunningScale(quantile=0.1, memory=0.9)
    for _ in range(200):
        scale = scale.update(10.0 + 5.0 * rng.random((64, 3, 2)))
    np.testing.assert_allclose(scale.low, 10.5, atol=0.1)
    np.testing.assert_allclose(scale.high, 14.5, atol=0.1)
    got = scale.apply([[[12.5, 30.0]]])[0]
    np.testing.assert_allclose(got, [[0.5, 1.0]], atol=0.05)
    again = RunningScale(**json.loads(json.dumps(asdict(scale))))
    assert again == scale
    assert scale.update([[], []]) == scale


def test_the_first_batch_sets_the_bounds_and_constants_are_in_the_middle():
    scale = RunningScale(quantile=0.0).update([[[0.0, 7.0], [4.0, 7.0]]])
    assert (scale.low, scale.high) == ((0.0, 7.0), (4.0, 7.0))
    np.testing.assert_allclose(scale.apply([[[1.0, 7.0]], []])[0], [[0.25, 0.5]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: by_bounds([[[1.0]]], [0.0], [0.0]), "that differ"),
        (lambda: by_bounds([[[1.0]]], [0.0], [np.inf]), "finite"),
        (lambda: by_rank([[[1.0]]], [0, 1]), "one id for each of 1"),
        (lambda: RunningScale(quantile=0.5), "quantile 0.5"),
        (lambda: RunningScale().apply([[[1.0]]]), "no rewards yet"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
