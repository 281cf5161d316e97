"""Speed measured against a reference in a lane: honest ratios, and what does not raise them."""

import math
import os
import subprocess
import sys
import threading

import pytest

from evolve import timing
from evolve.errors import SandboxError, TaskError
from evolve.evaluate import evaluate, open_pool
from evolve.sandbox import Pool, Status
from evolve.store import Store
from evolve.task import Case, Descriptor, Limits, Objective, Task, Timing

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="a lane needs a processor of its own"
)

RUNNER = "def run(program, given):\n    return program.total(given)\n"
REFERENCE = """
def total(n):
    found = 0
    for i in range(n):
        found += i % 7
    return found
"""
TWICE = REFERENCE.replace("range(n):", "list(range(n)) * 2:").replace("found\n", "found // 2\n")
TENTH = """
def total(n):
    whole, rest = divmod(n, 7)
    found = sum(i % 7 for i in range(n // 10)) * 0
    return whole * 21 + sum(range(rest)) + found
"""


def make(**changes):
    parts = {
        "summary": "Sum i % 7, fast.",
        "objectives": [
            Objective("right", 0.0, 1.0),
            Objective("speedup", 0.0, 20.0, bound=1000.0),
        ],
        "descriptors": [Descriptor("code_length", 0.0, 1000.0)],
        "cases": [Case("large", 700_000), Case("odd", 300_001)],
        "score": lambda output, case: {"right": float(output == exact(case.given))},
        "limits": Limits(wall_s=20.0, cpu_s=20.0, memory_mb=1024),
        "preload": (),
        "timing": Timing(pairs=5),
        "initial": REFERENCE,
        "runner": RUNNER,
    }
    return Task(**parts | changes)


def exact(n):
    whole, rest = divmod(n, 7)
    return whole * 21 + rest * (rest - 1) // 2


@pytest.fixture(scope="module")
def pool():
    with open_pool(make(), 1) as pool:
        yield pool


def speedup(source, pool, **changes):
    verdict = evaluate(make(**changes), source, pool)
    assert verdict.status == Status.OK, verdict.feedback
    assert verdict.rewards == pytest.approx((1.0, verdict.values["speedup"] / 20.0))
    return verdict.values["speedup"]


def test_the_reference_is_as_fast_as_itself(pool):
    assert speedup(REFERENCE, pool) == pytest.approx(1.0, rel=0.5)


def test_twice_the_work_is_about_half_the_speed_and_a_tenth_many_times(pool):
    slow, fast = speedup(TWICE, pool), speedup(TENTH, pool)
    assert slow < 0.85
    assert fast > 2.5


def test_a_busy_neighbour_slows_both(pool):
    lane = max(os.sched_getaffinity(0))
    code = f"import os\nos.sched_setaffinity(0, {{{lane}}})\nprint(1, flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as neighbour:
        neighbour.stdout.readline()
        try:
            found = speedup(REFERENCE, pool)
        finally:
            neighbour.kill()
    assert found == pytest.approx(1.0, rel=0.6)


def test_what_nothing_can_be_is_quarantined(pool):
    # It knows the cases by heart, and the bound says how fast one that works can be.
    table = {n: exact(n) for n in (700_000, 300_001)}
    task = make(objectives=[Objective("right", 0, 1), Objective("speedup", 0, 1.2, bound=1.5)])
    verdict = evaluate(task, f"def total(n): return {table}[n]", pool)
    assert verdict.status == Status.QUARANTINED
    assert (verdict.rewards, verdict.descriptors) == (None, None)
    assert "and nothing can surpass 1.5" in verdict.feedback
    assert verdict.values["speedup"] > 1.5


def test_a_bound_holds_for_any_objective():
    task = make(
        objectives=[Objective("length", 0.0, 10.0, "min", bound=0.0)],
        score=lambda output, _case: {"length": float(output)},
        cases=[Case("one", 1)],
        timing=None,
    )
    with open_pool(task, 1) as pool:
        assert evaluate(task, "def total(n): return 0.0", pool).rewards == (1.0,)
        verdict = evaluate(task, "def total(n): return -3.0", pool)
    assert (verdict.status, verdict.rewards) == (Status.QUARANTINED, None)
    assert verdict.feedback == "case 'one': length is -3, and nothing can surpass 0"


def test_each_timed_run_is_a_fresh_process(pool):
    remembers = REFERENCE.replace(
        "def total(n):\n", "known = {}\ndef total(n):\n    if n in known: return known[n]\n"
    ).replace("return found\n", "known[n] = found\n    return found\n")
    assert speedup(remembers, pool) == pytest.approx(1.0, rel=0.5)


@pytest.mark.parametrize(
    "answer",
    [
        # Ordinary workers keep off the lane, so this tells a program that it is being timed.
        "sorted(os.sched_getaffinity(0))",
        "int.from_bytes(os.urandom(4), 'little')",
    ],
)
def test_answers_that_differ_when_timed_are_wrong(pool, answer):
    task = make(score=lambda *_: {"right": 1.0})
    verdict = evaluate(task, f"import os\ndef total(n): return {answer}", pool)
    assert (verdict.status, verdict.rewards) == (Status.WRONG, None)
    assert "the answer differs from run to run" in verdict.feedback


def test_the_lane_is_a_core_that_nothing_else_of_the_run_uses(pool):
    where = (
        "import os\ndef total(n):\n"
        " try: os.sched_setaffinity(0, range(64))\n"
        " except PermissionError: pass\n"
        " return sorted(os.sched_getaffinity(0))"
    )
    *others, own = sorted(os.sched_getaffinity(0))
    with pool.session(where) as ordinary, pool.lane.session(where) as timed:
        assert ordinary.call(0).output == others
        assert timed.call(0).output == [own]


def test_one_program_at_a_time_is_measured(pool):
    done = threading.Event()

    def judge():
        evaluate(make(cases=[Case("small", 10)]), REFERENCE, pool)
        done.set()

    thread = threading.Thread(target=judge)
    with pool.lane.turn:
        thread.start()
        assert not done.wait(1.0)
        with pool.session(REFERENCE) as session:
            assert session.call(8).output == 21
    assert done.wait(60.0)
    thread.join()


def test_a_record_is_measured_twice_and_the_smaller_figure_counts(pool, monkeypatch):
    # The programs run; only what the clock says of the reference is written here.
    reference_s = iter([3.0] * 5 + [2.0] * 5 + [1.5] * 5)
    real = timing._run

    def run(source, cases, lane):
        _, replies = real(source, cases, lane)
        return next(reference_s) if source == REFERENCE else 1.0, replies

    monkeypatch.setattr(timing, "_run", run)
    monkeypatch.setattr(pool.lane, "fastest", 0.0)
    task, source = make(cases=[Case("small", 10)]), REFERENCE + "# mine\n"
    assert evaluate(task, source, pool).values["speedup"] == 2.0
    # No record, so not measured again: that would run out of figures.
    assert evaluate(task, source, pool).values["speedup"] == 1.5


def test_a_reference_that_fails_is_the_task_s_fault(pool):
    broken = make(timing=Timing(reference="def total(n): return 1 / 0", pairs=3))
    with pytest.raises(TaskError, match="the reference fails .exception.: line 1: ZeroDivision"):
        evaluate(broken, REFERENCE, pool)
    with Pool(RUNNER, (), workers=1) as plain, pytest.raises(TaskError, match="pool with a lane"):
        evaluate(make(), REFERENCE, plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: Timing(pairs=4), "pairs is 4, an odd number from 3 on"),
        (lambda: make(timing=Timing(cases=("huge",))), "no case 'huge'; cases: .'large', 'odd'"),
        (lambda: make(objectives=[Objective("right", 0, 1)]), "objective 'speedup' with a bound"),
        (lambda: Objective("a", 0, 2, bound=1.0), "bound is 1.0, which the best end .* 2, surp"),
        (lambda: Objective("a", 0, 2, "min", bound=1.0), "which the best end .* 0, surpasses"),
        (lambda: Objective("a", 0, 2, bound=math.inf), "bound is inf"),
    ],
)
def test_what_is_declared_wrongly_is_told(change, message):
    with pytest.raises(TaskError, match=message):
        change()


def test_a_machine_without_a_core_to_spare_is_told(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with pytest.raises(SandboxError, match="needs two processors or more"):
        open_pool(make(), 1)


TASK = """
from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Task, Timing


def score(output, case):
    if output != sum(i % 7 for i in range(case.given)):
        raise Invalid("wrong sum")
    return {}


TASK = Task(
    summary="Sum i % 7 for i below n, fast.",
    objectives=[Objective("speedup", 0.0, 4.0, bound=5.0)],
    descriptors=[Descriptor("ast_nodes", 3.0, 7.0, 8)],
    cases=[Case("large", 300_000)],
    score=score,
    limits=Limits(wall_s=10.0, cpu_s=5.0, memory_mb=512),
    preload=(),
    timing=Timing(pairs=3),
)
"""


@pytest.mark.slow
def test_a_campaign_on_speed(command, tmp_path):
    folder = tmp_path / "fast"
    folder.mkdir()
    (folder / "task.py").write_text(TASK)
    (folder / "run.py").write_text(RUNNER)
    body = REFERENCE.replace("def total(n):\n", "def total(n):\n    # EVOLVE-BLOCK-START\n")
    (folder / "initial.py").write_text(body + "    # EVOLVE-BLOCK-END\n")
    run = tmp_path / "run"
    arguments = ("--policy", "mutate", "--set", "search.prompts=2", "--set", "search.rollouts=2")
    command("run", folder, *arguments, "--evaluations", 8, "--out", run)
    with Store(run) as store:
        verdicts = list(store.evaluations())
    assert len(verdicts) == 9
    assert verdicts[0].raw["speedup"] == pytest.approx(1.0, rel=0.5)
    for verdict in verdicts:
        assert (verdict.rewards is None) == (verdict.status != "ok")
