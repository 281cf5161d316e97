"""Batches whose fault is known trip its measure, and a healthy one trips none."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from tests.vpo.test_trainer import CONFIG, advantages_for, sampled
from tests.vpo.tiny import llama
from vpo.diagnostics import judge, measure, report, reward_structure
from vpo.measures import MEASURES, START, Alarm
from vpo.trainer import Trainer

ALARMED = {name for name, row in MEASURES.items() if row.alarm is not None}
IDS = np.repeat(np.arange(8), 6)


def healthy(seed=0, m=3, k=4):
    """Answers with different strengths, in every prompt."""
    rng = np.random.default_rng(seed)
    rewards = 0.3 * rng.random((48, m, k))
    for s in range(m):
        rewards[:, s, s] += 0.5
    return rewards


def texts_of(n=48, m=3):
    return [[f"def f_{i}_{j}():\n    return {j}" for j in range(m)] for i in range(n)]


def everything(**changes):
    """All that can be said of a healthy batch, with changes."""
    rng = np.random.default_rng(1)
    options = {
        "texts": texts_of(),
        "parents": [["def parent(): ..."]] * 48,
        "finished": [True] * 48,
        "logprobs": [-rng.random(12) - 0.5 for _ in range(48)],
        "spans": [[(0, 4), (4, 8), (8, 12)]] * 48,
        "versions": [3] * 48,
        "version": 3,
        "floors": [0.05] * 4,
        "probe_gap": 1e-4,
        "quality": 0.5,
        "asked": 3,
    }
    rewards = changes.pop("rewards", healthy())
    return measure(rewards, IDS, **(options | changes))


def test_a_healthy_batch_calls_for_nothing():
    result = judge(everything(), [everything()] * 30)
    assert result.alarms == ()
    assert "Nothing calls for a change." in str(result)


def collinear():
    rng = np.random.default_rng(2)
    return rng.random((48, 3, 1)) * np.linspace(0.5, 1.0, 4) + 0.01 * rng.random((48, 3, 4))


def one_strong():
    rewards = 0.1 * np.random.default_rng(3).random((48, 3, 4))
    rewards[:, 0] += 0.8
    return rewards


def tied():
    """In most prompts all rollouts have the same rewards, but for the order of the answers."""
    rewards = healthy()
    rewards[IDS < 6] = rewards[:1]
    return rewards[:, ::-1]


def constant():
    rewards = healthy()
    rewards[:, :, 1:] = 1.0
    return rewards


PARENT = [["def f():  pass"]] * 48
#: For each alarm a batch that trips it, and one that is near by and does not.
BATCHES = {
    "reward_correlation": ({"rewards": collinear()}, {}),
    "effective_rank": ({"rewards": collinear()}, {}),
    "constant_rewards": ({"rewards": constant()}, {}),
    "scale_ratio": (
        {"rewards": healthy() * [50, 1, 1, 1]},
        {"rewards": healthy() * [5, 1, 1, 1]},
    ),
    "copies": (
        {"texts": [["def f(): pass", "x = 1", "y"]] * 48, "parents": PARENT},
        {"texts": [["def g(): pass", "x = 1", "y"]] * 48, "parents": PARENT},
    ),
    "answers_share": (
        {"texts": [["same", "same", "same"]] * 48},
        {"texts": [["a", "b", "c"], ["a", "b"]] * 24},
    ),
    "truncated": ({"finished": [True, False] * 24}, {"finished": [False] + [True] * 47}),
    "late_entropy": (
        {"logprobs": [-np.repeat([1.0, 0.5, 0.1], 4)] * 48},
        {"logprobs": [-np.repeat([1.0, 0.01, 0.5], 4)] * 48},
    ),
    "no_signal": ({"rewards": tied()}, {}),
    "policy_lag": ({"versions": [1] + [3] * 47}, {"versions": [2] + [3] * 47}),
    "probe_gap": ({"probe_gap": 0.2}, {"probe_gap": 0.01}),
    "below_floor": ({"floors": [0.0, 0.0, 0.0, 0.9]}, {"floors": [0.1] * 4}),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_faulty_batch_trips_its_measure(name):
    faulty, fine = (everything(**copy.deepcopy(changes)) for changes in BATCHES[name])
    result = judge(faulty)
    assert name in result.alarms
    assert name not in judge(fine).alarms
    row = MEASURES[name]
    assert f"- {row.title}: {row.advice}" in str(result)


#: Alarms that need the past: what changes in the batch after a healthy run.
CHANGES = {
    "specialisation": {"rewards": one_strong()},
    "entropy": {"logprobs": [-0.1 * np.ones(12)] * 48},
    "length": {
        "logprobs": [-np.linspace(0.5, 1.5, 40)] * 48,
        "spans": [[(0, 4), (4, 8), (8, 12)]] * 48,
    },
    "mean_reward": {"rewards": 0.2 * healthy()},
    "quality": {"quality": 0.1},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_for_the_worse_trips_its_measure(name):
    past = [everything(rewards=healthy(seed), quality=0.5 + 0.01 * (seed % 3)) for seed in range(9)]
    changed = everything(**CHANGES[name])
    assert name not in judge(changed, past).alarms  # too early to tell
    past += [everything(rewards=healthy(seed), quality=0.5) for seed in range(9, 14)]
    assert name in judge(changed, past).alarms
    assert name not in judge(past[-1], past[:-1]).alarms


def test_one_winner_for_long_trips_the_winner_entropy():
    collapsed = everything(rewards=one_strong())
    assert collapsed["winner_entropy"] < 0.3
    assert "winner_entropy" not in judge(collapsed, [collapsed] * 18).alarms
    assert "winner_entropy" in judge(collapsed, [collapsed] * 19).alarms
    recovered = [*[collapsed] * 30, everything()]
    assert "winner_entropy" not in judge(collapsed, recovered).alarms


def updated(drift=0.0, **changes):
    """The statistics of a real update on rollouts that ``drift`` moves off the policy."""
    model = llama()
    rollouts = sampled(model, drift=drift)
    trainer = Trainer(model, replace(CONFIG, **changes))
    for _ in range(3):
        stats = trainer.update(rollouts, advantages_for(rollouts))
    return stats


def test_updates_that_go_wrong_trip_their_measures():
    kept = {"kl", "clip_fraction", "effective_samples", "masked", "grad_norm"}
    calm = measure(healthy(), IDS, stats=updated(learning_rate=1e-4))
    assert not kept & set(judge(calm).alarms)
    wild = updated(learning_rate=3e-2)
    alarms = judge(measure(healthy(), IDS, stats=wild)).alarms
    assert {"kl", "clip_fraction"} <= set(alarms)
    stale = updated(drift=2.0)
    assert stale.effective_samples < 0.5
    assert "effective_samples" in judge(measure(healthy(), IDS, stats=stale)).alarms
    assert calm["refused"] == 0.0
    refused = measure(healthy(), IDS, stats=updated(learning_rate=3e-2, max_step_kl=1e-6))
    assert "refused" not in judge(refused, [calm, refused]).alarms
    assert "refused" in judge(refused, [calm, refused, refused]).alarms
    past = [calm] * START
    exploded = measure(healthy(), IDS, stats=replace(wild, grad_norm=50 * calm["grad_norm"]))
    assert "grad_norm" in judge(exploded, past).alarms
    from vpo.settings import Importance

    engine = Importance(level="sequence", action="mask", bound=1.0)
    masked = updated(drift=1.0, importance=engine)
    assert masked.weight_zero_fraction > 0.3
    assert "masked" in judge(measure(healthy(), IDS, stats=masked)).alarms


def test_every_alarm_has_a_batch_that_trips_it():
    of_updates = {"kl", "clip_fraction", "effective_samples", "masked", "grad_norm", "refused"}
    assert BATCHES.keys() | CHANGES.keys() | of_updates | {"winner_entropy"} == ALARMED


def test_every_alarm_has_a_remedy():
    for name, row in MEASURES.items():
        assert bool(row.advice) == (name in ALARMED)
        assert row.title
        assert row.meaning


def test_correlations_are_within_prompts():
    """Rewards that agree only on how hard a prompt is are not collinear."""
    rng = np.random.default_rng(4)
    level = np.repeat(rng.random(20), 30)[:, None]
    rows = 5 * level + rng.random((600, 2))
    ids = np.repeat(np.arange(20), 30)
    assert np.corrcoef(rows.T)[0, 1] > 0.9
    pearson, spearman, _ = reward_structure(rows, ids)
    assert abs(pearson[0, 1]) < 0.15
    assert abs(spearman[0, 1]) < 0.15
    # One prompt: the textbook's correlations.
    from scipy.stats import spearmanr

    one = rng.random((50, 3)).round(1)
    pearson, spearman, _ = reward_structure(one, np.zeros(50))
    np.testing.assert_allclose(pearson, np.corrcoef(one.T), atol=1e-12)
    np.testing.assert_allclose(spearman, spearmanr(one).statistic, atol=1e-12)
    # A monotone but crooked relation is seen by the ranks alone.
    crooked = np.stack([one[:, 0], np.exp(20 * one[:, 0])], axis=1)
    pearson, spearman, _ = reward_structure(crooked, np.zeros(50))
    assert pearson[0, 1] < 0.9 < 0.999 < spearman[0, 1]


def test_effective_rank_of_known_matrices():
    rng = np.random.default_rng(5)
    independent = measure(rng.random((600, 4, 5)), np.zeros(600, int))
    assert independent["effective_rank"] == pytest.approx(5.0, abs=0.05)
    assert independent["participation"] == pytest.approx(5.0, abs=0.05)
    same = measure(rng.random((600, 4, 1)) * np.ones(5), np.zeros(600, int))
    assert same["effective_rank"] == pytest.approx(1.0, abs=1e-6)
    # Two pairs of equal rewards: eigenvalues 2, 2, 0, 0.
    pairs = np.repeat(rng.random((600, 4, 2)), 2, axis=2)
    assert measure(pairs, np.zeros(600, int))["effective_rank"] == pytest.approx(2.0, abs=0.01)


def test_sets_by_hand():
    corners = np.eye(3)
    values = measure([corners, corners[[0, 0, 0]]], [0, 0])
    # R = 11/18 and 1/3, B = 1/3 in both; the pool is the corners.
    assert values["specialisation"] == pytest.approx((11 / 18 - 1 / 3) / (11 / 18 + 1 / 3))
    assert values["pool_gain"] == pytest.approx(11 / 18 / ((11 / 18 + 1 / 3) / 2) - 1)
    assert values["winners"] == 2.0
    assert values["idle_answers"] == pytest.approx((0 + 2 / 3) / 2)
    assert values["pareto_share"] == pytest.approx((1 + 1 / 3) / 2)
    assert values["pairwise_l1"] == pytest.approx((2.0 + 0.0) / 2)
    assert values["winner_entropy"] == pytest.approx(0.5, abs=0.01)
    assert values["same_rewards"] == pytest.approx(2 / 6)


def test_ragged_batches_and_empty_ones():
    rng = np.random.default_rng(6)
    ragged = [rng.random((2, 3)), [], rng.random((1, 5)), rng.random((4, 5))]
    values = measure(ragged, [0, 0, 1, 1])
    assert values["answers_share"] == pytest.approx(7 / 4 / 4)
    assert "effective_rank" in values
    assert judge(measure([], [])).alarms == ()
    nothing = measure([[], []], [0, 0], texts=[[], []], asked=3)
    assert judge(nothing).alarms == ("answers_share", "no_signal")


def test_the_report_is_for_people():
    text = report(collinear(), IDS)
    assert text.startswith("48 rollouts of 8 prompts\n")
    assert "ALARM  effective number of rewards" in text
    assert "(alarm: below 1.3)" in text
    assert "Split the score into parts that conflict" in text
    assert all(len(line) < 400 for line in text.splitlines())


def test_fingerprints_decide_what_a_copy_is():
    texts = [["a  b", "a b", "A B"]]
    assert measure(np.eye(3)[None], [0], texts=texts)["copies"] == pytest.approx(1 / 3)
    lower = measure(np.eye(3)[None], [0], texts=texts, fingerprint=lambda t: t.lower().split()[0])
    assert lower["copies"] == pytest.approx(2 / 3)


def test_alarms_in_words():
    assert str(Alarm("fell", 0.5)) == "below 0.5 x its start"
    assert str(Alarm("below", 0.3, lasting=20)) == "below 0.3 in 20 batches in a row"


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="texts: 1 entries for 48"):
        measure(healthy(), IDS, texts=[["a"]])
    with pytest.raises(ValueError, match="floors: 2 for 4 rewards"):
        measure(healthy(), IDS, floors=[0.1, 0.1])
    with pytest.raises(ValueError, match="measure 'nonsense' is unknown, allowed: reward_corr"):
        judge({"nonsense": 1.0})
