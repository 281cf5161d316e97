"""What a run shows: plain lines where nobody looks, a table that stays on a terminal."""

from io import StringIO

import pytest
from rich.console import Console

from evolve.campaign import RoundReport
from evolve.config import Config
from evolve.progress import ConsoleObserver
from evolve.records import OVER_BUDGET, VersionRecord
from evolve.state import empty_state


def report(round_=0, version=0, fates=None, ok=30, evaluations=40):
    return RoundReport(
        round=round_, version=version, answers=100, fates=fates or {"evaluate": 40, "no_op": 60},
        statuses={"ok": ok, "exception": 40 - ok}, new=3, improved=1, evaluations=evaluations,
        seconds=2.0, coverage=0.25, qd_score=1.5, vector_qd_score=1.75, set_utility=0.5,
        best_mean=0.625, best=(0.5, 0.75), programs=4,
    )  # fmt: skip


@pytest.fixture
def watched(toy_task):
    from evolve.records import Candidate, EvaluationRecord
    from evolve.task import load_task

    def watch(terminal):
        text = StringIO()
        console = Console(file=text, force_terminal=terminal, width=100, legacy_windows=False)
        observer = ConsoleObserver(console)
        task = load_task(str(toy_task))
        config = Config.model_validate({"task": "toy", "budget": {"evaluations": 200}})
        state = empty_state(task, config.search, 0)
        seed = Candidate(0, None, 0, (0, 0), None, "evaluate", "", None, task.initial, "f", "")
        verdict = EvaluationRecord(0, "ok", "all", (0.5, 0.5, 0.5), {}, (4.0, 2.0), "", 0.0, 0.0, 0)
        state.plant(seed, verdict)
        with observer:
            observer.on_start(config, state, 0)
            observer.on_progress(0, 40, 20)
            observer.on_round(report())
            observer.on_learning(0)
            stats = {"kl": 0.01, "entropy": 1.5, "seconds": 9.0}
            observer.on_version(VersionRecord(1, 0, 0, True, "adapters/v1", stats))
            # A refused update has measured nothing.
            refused = {"kl": None, "entropy": None, "seconds": 0.5, "reason": "no group has signal"}
            observer.on_version(VersionRecord(2, 0, 1, False, "", refused))
            observer.on_round(report(1, 1, {"evaluate": 40, OVER_BUDGET: 40}, evaluations=80))
        return text.getvalue(), observer.summary()

    return watch


def test_plain_lines_say_what_each_round_and_update_did(watched):
    text, _ = watched(terminal=False)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert len(lines) == 5
    assert "toy with pocket, seed 0: begins; start 0.5000" in lines[0]
    for part in ("round   0  v0      40 evaluated", "valid  30%", "taken  10%", "best 0.6250"):
        assert part in lines[1]
    assert "coverage 25.0%  QD 1.500" in lines[1]
    assert lines[3] == "update -> policy v2 (dropped: no group has signal; seconds 0.5)"
    assert lines[2] == "update -> policy v1 (in use; kl 0.01, entropy 1.5, seconds 9)"


def test_answers_after_the_end_of_the_budget_count_for_nothing(watched):
    text, summary = watched(terminal=False)
    assert "valid  50%" in text.splitlines()[4]
    first, last = summary
    assert first == "policy v0: valid 30.0% of 100 answers, archive took 10.0% of 40 evaluated"
    assert last == "policy v1: valid 50.0% of 60 answers, archive took 10.0% of 40 evaluated"


def test_a_terminal_shows_the_rounds_and_the_way_to_go(watched):
    text, _ = watched(terminal=True)
    assert "\x1b" in text
    assert "80/200 evaluated" in text
    assert "round 1 done" in text
    for column in ("policy", "valid", "taken", "coverage", "QD-score", "vector QD"):
        assert column in text
