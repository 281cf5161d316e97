"""Verdicts worked out by hand: rewards, stages, floors, feedback, and whose fault a failure is."""

import math
import os
import signal
import threading

import pytest

from evolve.errors import SandboxError, TaskError
from evolve.evaluate import evaluate, evaluate_many
from evolve.sandbox import Pool, Status
from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task
from tests.evolve.workers import zygote

RUNNER = "def run(program, given):\n    return program.f(given)\n"
LIMITS = Limits(wall_s=10.0, cpu_s=0.5, memory_mb=1024)


@pytest.fixture(scope="module")
def pool():
    with Pool(RUNNER, (), LIMITS, workers=2) as pool:
        yield pool


def score(output, case):
    if not isinstance(output, float):
        raise Invalid(f"{type(output).__name__}, a float is needed")
    return {"big": output, "near": abs(output - case.hidden), "where": output}


def make(**changes):
    parts = {
        "summary": "Test.",
        "objectives": [Objective("big", 0.0, 10.0), Objective("near", 0.0, 4.0, "min")],
        "descriptors": [Descriptor("where", 0.0, 10.0), Descriptor("loop_depth", 0.0, 5.0)],
        "cases": [Case("one", 1.0, 3.0), Case("two", 2.0, 3.0), Case("six", 6.0, 3.0)],
        "score": score,
        "stages": [Stage("cheap", ("one",), {"big": 0.1}), Stage("rest", ("two", "six"))],
        "limits": LIMITS,
        "name": "made",
    }
    return Task(**parts | changes)


def test_rewards_are_means_of_the_mapped_values(pool):
    verdict = evaluate(make(), "def f(x):\n for _ in ' ': x = x * 2\n return x", pool)
    # Outputs 2, 4, 12: big 0.2, 0.4, 1 (clipped); near 1, 1, 9 -> 0.75, 0.75, 0 (clipped).
    assert verdict.status == Status.OK
    assert verdict.rewards == pytest.approx((1.6 / 3, 0.5))
    assert verdict.values == pytest.approx({"big": 6.0, "near": 11 / 3, "where": 6.0})
    assert verdict.descriptors == pytest.approx((6.0, 1.0))
    assert (verdict.feedback, verdict.stage) == ("", "rest")
    assert verdict.cpu_s > 0
    assert verdict.max_rss_kb > 1000
    assert verdict.wall_s > 0


def test_each_case_may_report_an_objective_of_its_own(pool):
    task = make(
        objectives=[Objective("one", 0, 10), Objective("two", 0, 10), Objective("six", 0, 10)],
        descriptors=[Descriptor("code_length", 0, 100)],
        score=lambda output, case: {case.name: output},
        stages=(),
    )
    verdict = evaluate(task, "def f(x): return x", pool)
    assert verdict.rewards == pytest.approx((0.1, 0.2, 0.6))
    assert verdict.descriptors == (len("def f(x): return x"),)


def test_a_missed_floor_saves_the_later_stages(pool):
    verdict = evaluate(make(), "def f(x):\n assert x < 2\n return 0.5", pool)
    assert (verdict.status, verdict.stage) == (Status.STAGE_FLOOR, "cheap")
    assert verdict.feedback == "stage cheap: reward big is 0.05, at least 0.1 is needed"
    assert (verdict.rewards, verdict.descriptors) == (None, None)
    assert verdict.values == {"big": 0.5, "near": 2.5, "where": 0.5}


@pytest.mark.parametrize(
    ("source", "status", "feedback"),
    [
        ("def f(x): return 'a'", Status.WRONG, "case one: str, a float is needed"),
        ("def f(x) return 1", Status.SYNTAX_ERROR, "line 1: expected ':'"),
        ("def g(x): return x", Status.EXCEPTION, "case one: run.py line 2: AttributeError: module"),
        ("def f(x): return 1 / 0", Status.EXCEPTION, "case one: line 1: ZeroDivisionError: "),
        ("def f(x): return float('inf')", Status.INVALID_OUTPUT, "case one: inf is not a finite"),
        ("def f(x): exit()", Status.EXITED_EARLY, "case one: line 1: SystemExit"),
        ("a = '\ud800'", Status.SYNTAX_ERROR, ""),
        ("a = '\0'", Status.SYNTAX_ERROR, "null bytes"),
        ("a=1\n" * 20_000, Status.SYNTAX_ERROR, "65536 bytes"),
        ("return 1", Status.SYNTAX_ERROR, "line 1: SyntaxError: 'return' outside function"),
    ],
)
def test_a_failure_says_where_and_why(pool, source, status, feedback):
    verdict = evaluate(make(), source, pool)
    assert verdict.status == status
    assert feedback in verdict.feedback
    assert (verdict.rewards, verdict.descriptors) == (None, None)


def test_what_was_finished_before_a_failure_is_kept_and_the_rest_is_unknown(pool):
    verdict = evaluate(make(), "def f(x):\n while x > 2: pass\n return x * 2", pool)
    assert (verdict.status, verdict.stage) == (Status.TIMEOUT_CPU, "rest")
    assert verdict.feedback.startswith("case six: it used 0.")
    assert verdict.rewards is None
    assert verdict.values == {"big": 3.0, "near": 1.0, "where": 3.0}


def test_what_a_dying_program_said_is_passed_on(pool):
    last_words = (
        "import os, sys\ndef f(x):\n print('no\\x1b[2J more', file=sys.stderr)\n os.abort()"
    )
    verdict = evaluate(make(), last_words, pool)
    assert verdict.status == Status.CRASHED
    assert verdict.printed == "no more\n"
    # Where it may not send itself signals, the C library ends it by another one.
    assert verdict.feedback.startswith("case one: its process died of signal ")
    assert verdict.feedback.endswith("; it printed: no more")
    assert evaluate(make(), "print('hello')\ndef f(x): return 5.0", pool).printed == "hello\n"


def test_inspection_of_the_text_counts_as_one_case(pool):
    def inspect(source):
        if "cheat" in source:
            raise Invalid("no cheating")
        return {"short": len(source)}

    task = make(
        inspect=inspect, objectives=[Objective("short", 0, 100, "min"), Objective("big", 0, 10)]
    )
    assert evaluate(task, "def f(x): return 5.0", pool).rewards == pytest.approx((0.8, 0.5))
    verdict = evaluate(task, "def f(x): return 5.0 # cheat", pool)
    assert (verdict.status, verdict.feedback) == (Status.WRONG, "no cheating")


def raising(_output, _case):
    return {"big": {}["missing"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": raising}, "score raised KeyError on case 'one': 'missing'"),
        ({"score": lambda o, _c: {"big": o}}, "no case reports the objective 'near'"),
        ({"score": lambda _o, _c: {"big": math.nan}}, "case 'one': 'big' is nan, a finite number"),
        ({"score": lambda _o, _c: {"near": None}}, "case 'one': 'near' is None, a finite number"),
        ({"score": lambda _o, _c: 1.0}, "case 'one': the judge returned float, a dict"),
        ({"score": lambda _o, _c: {}}, "its floor asks for 'big'"),
        ({"descriptors": [Descriptor("no", 0, 1)]}, "the descriptor 'no' is neither built in"),
        ({"inspect": lambda _source: 1 / 0}, "inspect raised ZeroDivisionError"),
        ({"cases": [Case(n, {1}) for n in ("one", "two", "six")]}, "set is not plain data"),
    ],
)
def test_the_judge_s_faults_stop_the_run(pool, changes, message):
    with pytest.raises(TaskError) as caught:
        evaluate(make(**changes), "def f(x): return 5.0", pool)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    # The worker went back to the pool.
    assert evaluate(make(), "def f(x): return 5.0", pool).status == Status.OK


def test_a_judge_s_fault_names_the_line(pool, tmp_path):
    (tmp_path / "task.py").write_text("\n\ndef score(output, case):\n    return {'big': 1 / 0}\n")
    namespace = {}
    exec(compile((tmp_path / "task.py").read_text(), tmp_path / "task.py", "exec"), namespace)
    with pytest.raises(TaskError, match=r"task\.py, line 4: score raised ZeroDivisionError"):
        evaluate(make(score=namespace["score"], folder=tmp_path), "def f(x): return 5.0", pool)


def test_remarks_that_are_no_numbers_are_left_out(pool):
    task = make(score=lambda o, case: {**score(o, case), "note": "text", "gap": math.inf, "n": 3})
    assert evaluate(task, "def f(x): return 5.0", pool).values.keys() == {
        "big",
        "near",
        "where",
        "n",
    }


def test_a_tower_of_brackets_cannot_break_the_judge(pool):
    tower = "def f(x): return 5.0\ng = lambda: " + "-" * 3000 + "1"
    task = make(descriptors=[Descriptor("ast_nodes", 0, 12), Descriptor("loop_depth", 0, 5)])
    verdict = evaluate(task, tower, pool)
    assert verdict.status in (Status.OK, Status.SYNTAX_ERROR, Status.WRONG)


def test_equal_programs_have_equal_digests(pool):
    steady, twin, other = (
        evaluate(make(), f"def f(x): return {body}", pool).outputs_digest
        for body in ("x + 1.0", "1.0 + x", "x + 2.0")
    )
    assert steady == twin != other


def test_many_programs_come_back_under_their_index(pool):
    sources = [f"def f(x): return {i / 4}" for i in range(40)]
    sources[7] = "def f(x): return 1 / 0"
    verdicts = dict(evaluate_many(make(), iter(sources), pool))
    assert sorted(verdicts) == list(range(40))
    for index, verdict in verdicts.items():
        if index == 7:
            assert verdict.status == Status.EXCEPTION
        elif index < 4:
            assert verdict.status == Status.STAGE_FLOOR
        else:
            assert verdict.values["big"] == index / 4


def test_results_do_not_wait_for_a_slow_program(pool):
    slow = "import time\ndef f(x):\n time.sleep(0.3)\n return 5.0"
    order = [i for i, _ in evaluate_many(make(), [slow] + ["def f(x): return 5.0"] * 3, pool)]
    assert order == [1, 2, 3, 0]


def test_stopping_early_frees_the_workers(pool):
    endless = ("def f(x): return 5.0" for _ in iter(int, 1))
    verdicts = evaluate_many(make(), endless, pool)
    next(verdicts)
    verdicts.close()
    assert evaluate(make(), "def f(x): return 5.0", pool).status == Status.OK
    with pytest.raises(TaskError):
        list(evaluate_many(make(score=raising), ["def f(x): return 5.0"] * 9, pool))
    assert evaluate(make(), "def f(x): return 5.0", pool).status == Status.OK


class Saboteur:
    """A pool that kills the worker of its first ``deaths`` sessions, as the system might."""

    def __init__(self, pool, deaths):
        self.pool, self.deaths, self.workers = pool, deaths, pool.workers

    def session(self, source):
        session = self.pool.session(source)
        if self.deaths:
            self.deaths -= 1
            os.kill(zygote(session._worker), signal.SIGKILL)
        return session


def test_a_lost_worker_is_a_second_chance_and_not_a_third(pool):
    once = evaluate(make(), "def f(x): return 5.0", Saboteur(pool, 1))
    assert (once.status, once.rewards) == (Status.OK, pytest.approx((0.5, 0.5)))
    twice = evaluate(make(), "def f(x): return 5.0", Saboteur(pool, 2))
    assert (twice.status, twice.rewards) == (Status.SANDBOX_ERROR, None)
    assert evaluate(make(), "def f(x): return 5.0", pool).status == Status.OK


def test_a_machine_that_kills_every_worker_ends_the_run(pool):
    with pytest.raises(SandboxError, match="died 6 times in a row"):
        list(evaluate_many(make(), ["def f(x): return 5.0"] * 20, Saboteur(pool, 99)))
    assert threading.active_count() < 20
