"""Reward hygiene on vectors whose dependence is known."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from evolve.hygiene import effective_rank, study, warnings_of


def sentences(rewards, names="abcdef"):
    return list(warnings_of(study(np.asarray(rewards, dtype=float), names[: len(rewards[0])])))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_independent_rewards_count_in_full_and_equal_ones_once(k):
    assert effective_rank(np.eye(k)) == pytest.approx(k)
    assert effective_rank(np.ones((k, k))) == pytest.approx(1.0)


def test_effective_rank_of_two_correlated_rewards_by_hand():
    # Eigenvalues 1 + c and 1 - c, shares 0.9 and 0.1.
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))
    assert effective_rank(np.array([[1.0, 0.8], [0.8, 1.0]])) == pytest.approx(math.exp(entropy))


def test_correlation_is_spearman_with_ties():
    rng = np.random.default_rng(0)
    rewards = rng.integers(0, 5, (60, 4)) / 4
    distinct = np.unique(rewards, axis=0)
    found = study(rewards, "abcd")
    assert found.distinct == len(distinct)
    assert found.correlation == pytest.approx(spearmanr(distinct).statistic, abs=1e-12)


def test_independent_rewards_raise_no_warning():
    rewards = np.random.default_rng(1).random((40, 3))
    assert sentences(rewards) == []
    assert study(rewards, "abc").effective_rank > 2.5


def test_rewards_that_move_as_one_are_named():
    x = np.random.default_rng(2).random((30, 1))
    rewards = np.hstack([x, x**3, 1 - x])
    found = study(rewards, "abc")
    assert [pair[:2] for pair in found.collinear] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [round(pair[2]) for pair in found.collinear] == [1, -1, -1]
    assert found.effective_rank == pytest.approx(1.0)
    said = " ".join(sentences(rewards))
    assert "rewards a and b move as one (correlation +1.00): merge them" in said
    assert "the 3 rewards are worth 1.00 independent ones" in said


def test_a_constant_reward_is_named_and_counts_for_nothing():
    x = np.random.default_rng(3).random((30, 2))
    rewards = np.hstack([x, np.full((30, 1), 0.4)])
    found = study(rewards, "abc")
    assert found.constant == ("c",)
    assert found.effective_rank == pytest.approx(study(x, "ab").effective_rank)
    assert sentences(rewards) == ["reward c was the same for all 30 programs: it guides nothing"]


@pytest.mark.parametrize(("end", "word"), [(1.0, "top"), (0.0, "bottom")])
def test_a_saturated_reward_is_named(end, word):
    rewards = np.random.default_rng(4).random((40, 2))
    rewards[:38, 1] = end
    assert sentences(rewards) == [
        f"reward b sits at the {word} of its range for 95% of the programs: widen the range"
    ]


def test_few_vectors_prove_nothing():
    assert sentences([[0.1, 0.2]] * 50) == [
        "only 1 different reward vectors among 50 programs: too few to tell whether the rewards "
        "conflict"
    ]
    assert study(np.full((5, 2), 0.3), "ab").effective_rank == 0.0


def test_order_and_repeats_of_programs_do_not_matter():
    rng = np.random.default_rng(5)
    rewards = rng.random((20, 3))
    again = rng.permutation(np.vstack([rewards, rewards]))
    one, two = study(rewards, "abc"), study(again, "abc")
    assert one.correlation == pytest.approx(two.correlation)
    assert one.effective_rank == pytest.approx(two.effective_rank)
