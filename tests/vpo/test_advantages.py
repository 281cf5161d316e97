"""Advantages against hand-worked numbers and enumeration."""

import itertools
import math

import numpy as np
import pytest

from vpo.advantages import ESTIMATORS, compute_advantages
from vpo.bonus import Bonus
from vpo.utility import set_utility

RNG = np.random.default_rng(0)
NAMES = sorted(ESTIMATORS)


def one_group(scalars, **options):
    """Advantages of rollouts with one answer each, whose two rewards average to the scalars."""
    x = np.asarray(scalars, dtype=float)
    rows = np.stack([x - 0.05, x + 0.05], axis=1)[:, None, :]
    return compute_advantages(rows, np.zeros(len(x), int), **options).advantages


def test_hand_worked_values():
    x = [0.2, 0.4, 0.6, 0.8]  # mean 0.5, unbiased variance 0.2 / 3, population variance 0.05
    off = np.array([-0.3, -0.1, 0.1, 0.3])
    np.testing.assert_allclose(one_group(x, estimator="grpo"), off / 0.2581989, rtol=1e-5)
    np.testing.assert_allclose(one_group(x, estimator="vpo"), off / 0.2236068, rtol=1e-5)
    np.testing.assert_allclose(one_group(x, estimator="dr_grpo"), off, atol=1e-12)
    # Less the mean of the other three: 0.2 - 0.6, 0.4 - 1.6 / 3, ...
    np.testing.assert_allclose(
        one_group(x, estimator="rloo"), [-0.4, -0.4 / 3, 0.4 / 3, 0.4], atol=1e-12
    )
    np.testing.assert_allclose(one_group(x, estimator="maxrl"), off / 0.5, rtol=1e-5)
    np.testing.assert_allclose(one_group(x, estimator="grpo", scale="none"), off, atol=1e-12)
    np.testing.assert_allclose(one_group(x, estimator="vpo", scale="mean"), off / 0.5, rtol=1e-5)


def test_binary_maxrl_averages_over_the_successes():
    advantages = one_group([1.0, 0.0, 0.0, 0.0], estimator="maxrl")
    np.testing.assert_allclose(advantages, [3.0, -1.0, -1.0, -1.0], rtol=1e-5)


def enumerated_max_at_k(x, size):
    subsets = list(itertools.combinations(range(len(x)), size))
    total = np.zeros(len(x))
    for subset in subsets:
        total[list(subset)] += max(x[j] for j in subset)
    return total / len(subsets)


@pytest.mark.parametrize(("n", "s"), [(4, 2), (5, 3), (6, 5), (8, 4), (3, 2)])
def test_max_at_k_by_enumeration(n, s):
    x = RNG.random(n).round(1)  # rounding makes ties
    weights = enumerated_max_at_k(x, s)
    expected = weights - weights.mean()
    got = one_group(x, estimator="max_at_k", subset=s, scale="none")
    np.testing.assert_allclose(got, expected, atol=1e-12)
    normed = one_group(x, estimator="max_at_k", subset=s)
    np.testing.assert_allclose(normed, expected / (weights.std(ddof=1) + 1e-6), atol=1e-9)


@pytest.mark.parametrize(
    ("n", "s", "m", "k"), [(4, 2, 1, 3), (5, 3, 2, 2), (4, 4, 1, 3), (6, 3, 1, 1)]
)
def test_vpo_iid_by_enumeration(n, s, m, k):
    """A_i = (1 / C(n, s)) sum over I with i of R(I) - R(I without i), R in closed form."""
    rewards = RNG.random((n, m, k))
    expected = np.zeros(n)
    for subset in itertools.combinations(range(n), s):
        whole = float(set_utility(rewards[list(subset)].reshape(-1, k)).value)
        for i in subset:
            rest = [j for j in subset if j != i]
            part = float(set_utility(rewards[rest].reshape(-1, k)).value) if rest else 0.0
            expected[i] += (whole - part) / math.comb(n, s)
    options = {"estimator": "vpo_iid", "subset": s, "scale": "none"}
    got = compute_advantages(rewards, np.zeros(n, int), n_weights=1 << 14, **options)
    np.testing.assert_allclose(got.advantages, expected, atol=1e-4 if k > 1 else 1e-12)


def test_vpo_iid_over_references():
    rewards, parents = RNG.random((4, 1, 3)), RNG.random((2, 3))
    options = {"estimator": "vpo_iid", "subset": 4, "scale": "none", "n_weights": 1 << 14}
    got = compute_advantages(rewards, [0] * 4, references=[parents] * 4, **options)
    everything = np.concatenate([parents, rewards[:, 0]])
    for i in range(4):
        without = np.delete(everything, 2 + i, axis=0)
        expected = float(set_utility(everything).value - set_utility(without).value)
        assert got.advantages[i] == pytest.approx(expected, abs=1e-4)


def test_gdpo_against_loops():
    rewards = RNG.random((12, 1, 3))
    rewards[:4, :, 1] = 0.5  # a constant objective counts for nothing in its group
    ids = np.repeat([0, 1, 2], 4)
    expected = np.zeros(12)
    for group in range(3):
        for j in range(3):
            column = rewards[ids == group, 0, j]
            std = column.std(ddof=1)
            if std > 0:
                expected[ids == group] += (column - column.mean()) / (std + 1e-6)
    expected /= expected.std(ddof=1) + 1e-4
    got = compute_advantages(rewards, ids, estimator="gdpo").advantages
    np.testing.assert_allclose(got, expected, atol=1e-9)


def test_entropic_weights_have_the_wanted_divergence():
    x = np.array([0.1, 0.5, 0.4, 0.9, 0.2, 0.3])
    advantages = one_group(x, estimator="entropic")
    # A_i + 1 = e_i / mean of the others, so p_i / (1 - p_i) = (A_i + 1) / 5.
    odds = (advantages + 1.0) / 5.0
    p = odds / (1.0 + odds)
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    assert (p * np.log(6 * p)).sum() == pytest.approx(math.log(2.0), abs=1e-6)
    slopes = np.diff(np.log(p[np.argsort(x)])) / np.diff(np.sort(x))
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6)


def test_multi_rlvr_sums_over_distinct_answers():
    a, b = [0.5, 0.1], [0.2, 0.2]
    sets = [[a, a, a], [a, b], [b], []]
    got = compute_advantages(sets, [0] * 4, estimator="multi_rlvr", scale="none")
    np.testing.assert_allclose(got.utilities, [0.6, 1.0, 0.4, 0.0], atol=1e-12)
    np.testing.assert_allclose(got.advantages, got.utilities - 0.5, atol=1e-12)


def test_vpo_normalises_the_set_utility():
    rewards, ids = RNG.random((12, 3, 5)), np.tile([7, 3], 6)
    got = compute_advantages(rewards, ids, lambda_d=2.0, alpha=0.5, seed=4)
    value = set_utility(rewards, lambda_d=2.0, alpha=0.5, seed=4).value
    np.testing.assert_allclose(got.utilities, value, atol=1e-12)
    for group in (3, 7):
        x = value[ids == group]
        expected = (x - x.mean()) / (x.std() + 1e-6)
        np.testing.assert_allclose(got.advantages[ids == group], expected, atol=1e-9)
    assert got.groups.tolist() == [3, 7]
    assert not got.dead_groups.any()
    assert (got.standard_errors > 0.0).all()


@pytest.mark.parametrize("name", NAMES)
def test_equal_rollouts_get_exactly_nothing(name):
    rewards = np.concatenate([np.repeat(RNG.random((1, 3, 4)), 6, axis=0), RNG.random((6, 3, 4))])
    got = compute_advantages(rewards, np.repeat([0, 1], 6), estimator=name)
    assert (got.advantages[:6] == 0.0).all()
    assert (got.advantages[6:] != 0.0).any()
    assert got.dead_groups.tolist() == [True, False]


@pytest.mark.parametrize("credit", ["rollout", "prefix", "loo"])
@pytest.mark.parametrize("seed", range(20))
def test_tied_utilities_get_exactly_nothing(seed, credit):
    """R does not care which objective is which, but the errors of the quadrature do."""
    rng = np.random.default_rng(seed)
    rows = np.abs(rng.normal(size=(3, 4 + seed % 5)))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)  # all on the front
    tied = np.stack([rows[:, rng.permutation(rows.shape[1])] for _ in range(8)])
    got = compute_advantages(tied, [0] * 8, seed=seed, credit=credit)
    assert np.ptp(got.utilities) > 0.0  # noise is there
    assert (got.answer_advantages == 0.0).all()
    assert got.dead_groups.all()


def test_tied_binary_tests_in_a_batch_with_signal():
    rng = np.random.default_rng(1)
    tied = np.stack([rng.permutation(np.repeat([1.0, 0.0], [6, 10])) for _ in range(8)])[:, None]
    rewards = np.concatenate([tied, rng.integers(0, 2, (8, 1, 16))])
    got = compute_advantages(rewards, np.repeat([0, 1], 8))
    assert (got.advantages[:8] == 0.0).all()
    assert got.advantages[8:].std() == pytest.approx(1.0, abs=1e-4)


def test_small_differences_that_are_real_survive():
    rows = np.full((4, 2, 6), 0.5)
    rows[:, 0, 0] += np.arange(4) * 1e-4  # two rows: closed form, no noise
    got = compute_advantages(rows, [0] * 4)
    assert got.advantages.std() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_invariances(name):
    rewards, ids = RNG.random((10, 3, 4)), np.repeat([0, 1], 5)
    base = compute_advantages(rewards, ids, estimator=name).advantages
    shuffled = compute_advantages(rewards[:, [2, 0, 1]], ids, estimator=name).advantages
    np.testing.assert_allclose(shuffled, base, atol=1e-9)
    order = RNG.permutation(10)
    moved = compute_advantages(rewards[order], ids[order], estimator=name).advantages
    np.testing.assert_allclose(moved, base[order], atol=1e-9)
    if name != "maxrl":  # divides by the mean
        shifted = compute_advantages(rewards + 0.5, ids, estimator=name).advantages
        np.testing.assert_allclose(shifted, base, atol=1e-6)


def test_a_repeated_answer_adds_nothing():
    sets = [RNG.random((3, 4)) for _ in range(4)]
    longer = [np.concatenate([rows, rows[:1]]) for rows in sets]
    base = compute_advantages(sets, [0] * 4).advantages
    assert (compute_advantages(longer, [0] * 4).advantages == base).all()
    # The fourth answer, a copy, earns the same as ending would have: nothing.
    prefix = compute_advantages([*longer[:2], *sets[2:]], [0] * 4, credit="prefix")
    assert prefix.answer_advantages[:2, 3].tolist() == [0.0, 0.0]


def test_groups_of_one_and_empty_rollouts():
    got = compute_advantages([RNG.random((2, 3)), [], RNG.random((1, 3)), []], [0, 1, 1, 1])
    assert got.advantages[0] == 0.0
    assert got.dead_groups.tolist() == [True, False]
    assert got.advantages[2] > 0.0 > got.advantages[1] == got.advantages[3]
    assert got.n_answers.tolist() == [2, 0, 1, 0]
    empty = compute_advantages(np.empty((0, 2, 3)), [])
    assert empty.advantages.shape == (0,)
    nobody = compute_advantages([[], []], [0, 0], credit="prefix")
    assert (nobody.answer_advantages == 0.0).all()


def test_groups_may_differ_in_size_and_objectives():
    sets = [RNG.random((2, 3)) for _ in range(4)] + [RNG.random((3, 5)) for _ in range(3)]
    together = compute_advantages(sets, [0] * 4 + [1] * 3, min_spread=0.0).advantages
    apart = [
        compute_advantages(part, [0] * len(part), min_spread=0.0).advantages
        for part in (sets[:4], sets[4:])
    ]
    np.testing.assert_allclose(together, np.concatenate(apart), atol=1e-12)


def test_batch_scale_uses_one_number_for_all_groups():
    rewards, ids = (
        RNG.random((8, 2, 3)) * np.repeat([1.0, 0.1], 4)[:, None, None],
        [0] * 4 + [1] * 4,
    )
    plain = compute_advantages(rewards, ids, scale="none").advantages
    scaled = compute_advantages(rewards, ids, scale="batch").advantages
    np.testing.assert_allclose(scaled, plain / (plain.std(ddof=1) + 1e-6), atol=1e-9)


def test_multipliers_lift_the_objective_below_its_floor():
    rewards = RNG.random((6, 3, 4))
    mu = np.array([0.0, 2.0, 0.0, 0.5])
    got = compute_advantages(rewards, [0] * 6, multipliers=mu)
    expected = (set_utility(rewards).value + rewards.mean(1) @ mu) / 3.5
    np.testing.assert_allclose(got.utilities, expected, atol=1e-12)


def test_a_copy_of_the_parent_is_worth_nothing():
    parent = RNG.random((1, 4))
    better = parent + np.array([[0.2, 0.0, 0.0, 0.0]])
    sets = [np.repeat(parent, 3, axis=0), better, 0.8 * parent, []]
    got = compute_advantages(sets, [0] * 4, references=[parent] * 4)
    assert got.utilities[[0, 2, 3]].tolist() == [0.0, 0.0, 0.0]
    assert got.advantages[1] > 0.0
    assert got.advantages[0] == got.advantages[2] == got.advantages[3] < 0.0


def test_added_bonus_is_centred_capped_and_gated():
    rewards, ids = RNG.random((8, 2, 3)), [0] * 4 + [1] * 4
    rewards[4:] = rewards[4]  # no signal in the second group
    novelty = np.array([0.0, 0.2, 0.4, 1.0, 0.0, 0.2, 0.4, 1.0])
    eligible = np.array([1, 1, 1, 0, 1, 1, 1, 1], bool)
    base = compute_advantages(rewards, ids).advantages
    got = compute_advantages(rewards, ids, bonus=Bonus(novelty, weight=0.3, eligible=eligible))
    inside = novelty[:3]
    wanted = 0.3 * (inside - inside.mean()) / inside.std()
    leash = 0.5 * np.abs(base[:3])
    extra = got.advantages[:3] - base[:3]
    np.testing.assert_allclose(extra, np.clip(wanted, -leash, leash), atol=1e-12)
    assert got.advantages[3] == base[3]
    assert (got.advantages[4:] == 0.0).all()
    assert (np.sign(got.advantages) == np.sign(base)).all()


def test_multiplied_bonus_is_darling():
    rewards = RNG.random((4, 1, 2))
    novelty = np.array([0.0, 0.25, 0.5, 1.0])
    bonus = Bonus(novelty, combine="multiply", weight=1.0)
    got = compute_advantages(rewards, [0] * 4, estimator="dr_grpo", bonus=bonus).advantages
    product = rewards.mean((1, 2)) * novelty
    np.testing.assert_allclose(got, product - product.mean(), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "ppo"}, "allowed: vpo"),
        ({"credit": "token"}, "allowed: rollout"),
        ({"scale": "max"}, "allowed: std"),
        ({"estimator": "max_at_k", "credit": "prefix"}, "whole rollouts"),
        ({"estimator": "grpo", "references": [np.eye(3)] * 4}, "references"),
        ({"estimator": "gdpo", "multipliers": [0.0] * 3}, "multipliers"),
        ({"multipliers": [0.0] * 2}, "k = 3"),
        ({"subset": 0, "estimator": "max_at_k"}, "subset"),
        ({"bonus": Bonus([0.1] * 3)}, "4 rollouts"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        compute_advantages(RNG.random((4, 2, 3)), [0] * 4, **options)


def test_bad_shapes_are_named():
    with pytest.raises(ValueError, match="one id for each of 4"):
        compute_advantages(RNG.random((4, 2, 3)), [0] * 3)
    with pytest.raises(ValueError, match="k differs"):
        compute_advantages([np.eye(2), np.eye(3)], [0, 0], estimator="gdpo")
    with pytest.raises(ValueError, match="negative"):
        one_group([-0.5, -0.4], estimator="maxrl")
