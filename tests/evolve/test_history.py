"""Figures over evaluations: between rounds by counting, at their ends as the run had them."""

import numpy as np
import pytest

from evolve import history as history_module
from evolve.history import read_history
from evolve.state import replay, restore_state
from evolve.store import Store

SMALL = ("--policy", "mutate", "--set", "search.prompts=4", "--set", "search.rollouts=2")
ISLANDS = ("--set", "search.islands=2", "--set", "search.migrate_every=1")


@pytest.fixture
def run(toy_task, command, tmp_path):
    folder = tmp_path / "run"
    command("run", toy_task, *SMALL, *ISLANDS, "--evaluations", 90, "--out", folder)
    return folder


def test_a_curve_counts_what_was_known_after_every_evaluation(run):
    history = read_history(run)
    with Store(run) as store:
        verdicts = list(store.evaluations())
        cells = {add.candidate: add.cell for add in store.adds()}
        rounds = store.rounds()
    evaluations, best = history.curve("best_mean")
    _, coverage = history.curve("coverage")
    _, each = history.curve("best")
    assert set(evaluations) == set(range(91))
    for at, value, covered, tops in zip(evaluations, best, coverage, each, strict=True):
        # Candidates that repeat others have an id and no verdict: count verdicts.
        known = [v for v in verdicts[: int(at) + 1] if v.rewards is not None]
        assert value == pytest.approx(max(np.mean(v.rewards) for v in known))
        assert covered == pytest.approx(len({cells[v.candidate] for v in known}) / 40)
        assert tops == pytest.approx(np.max([v.rewards for v in known], axis=0))
    for name in ("qd_score", "vector_qd_score", "set_utility", "coverage", "best_mean"):
        at, values = history.curve(name)
        for entry in rounds:
            # Champions travel when a round is closed, so its last point is what the run reports.
            last = np.searchsorted(at, entry["evaluations"], side="right") - 1
            assert values[last] == pytest.approx(entry[name])


def test_a_long_run_is_read_at_some_points_only(run, monkeypatch):
    monkeypatch.setattr(history_module, "POINTS", 9)
    evaluations, _ = read_history(run).curve("coverage")
    with Store(run) as store:
        ends = {entry["evaluations"] for entry in store.rounds()}
    assert set(evaluations) == ends | set(range(0, 91, 10))


def test_a_replay_ends_where_a_resume_begins(run):
    history = read_history(run)
    config = history.config
    with Store(run) as store:
        resumed = restore_state(store, history.task, config.search, config.seed)
        *_, (judged, closed, replayed) = replay(store, history.task, config.search, config.seed)
    assert (judged, closed) == (90, True)
    states = (resumed, replayed, history.state)
    assert len({tuple(a.digest() for a in state.islands) for state in states}) == 1
    assert resumed.feedback == replayed.feedback
    assert resumed.known == replayed.known
