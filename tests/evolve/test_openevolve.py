"""OpenEvolve's pairs, unchanged: every habit of theirs, and what happens when one misbehaves."""

import json
import math

import pytest

from evolve.errors import ConfigError, EvolveError, TaskError
from evolve.evaluate import evaluate, open_pool
from evolve.openevolve import PairSettings, prepare, read_settings
from evolve.sandbox import Status
from evolve.sandbox.tiers import probe
from evolve.store import Store
from evolve.task import load_task
from tests.evolve import pairs

pytestmark = pytest.mark.skipif(not probe("A").works, reason="pairs need isolation of tier A")

# What `search` finds in pairs.MARKED: the lowest point of its grid.
FOUND = min((-3.0 + 0.1 * i for i in range(60)), key=lambda x: math.sin(3 * x) + 0.1 * x * x)


def adapted(tmp_path, initial, evaluator, config="", **options):
    """The task of a pair and the notes on it."""
    files = pairs.write_pair(tmp_path / "pair", initial, evaluator)
    path = tmp_path / "config.yaml"
    path.write_text(config)
    _, folder, notes = prepare(*files, path, [], None, tmp_path / "run", **options)
    return load_task(folder / "task"), notes


def verdicts(task, *programs):
    with open_pool(task, 1) as pool:
        return [evaluate(task, program, pool) for program in programs]


def searching(body):
    """pairs.MARKED with another body of ``search``."""
    head, rest = pairs.MARKED.split("    best, low", 1)
    return f"{head}    {body}\n    best, low{rest}"


def test_a_dict_becomes_rewards_remarks_and_identifiers(tmp_path):
    task, notes = adapted(tmp_path, pairs.MARKED, pairs.DICT, minimise=["seconds"])
    assert [o.name for o in task.objectives] == ["combined_score", "distance_from_0", "seconds"]
    assert "seconds (small)" in notes[0]
    start, nearer = verdicts(task, task.initial, searching("return -0.5236"))
    value = math.sin(3 * FOUND) + 0.1 * FOUND * FOUND
    assert start.values["combined_score"] == pytest.approx(1 / (2 + value))
    assert start.rewards[:2] == (0.5, 0.5)
    assert f"comment: x is {FOUND:.3f}" in start.feedback
    assert nearer.rewards[0] > 0.5
    assert nearer.values["distance_from_0"] == 0.5236


def test_a_result_object_without_a_combined_score_and_a_program_without_markers(tmp_path):
    task, _ = adapted(tmp_path, pairs.UNMARKED, pairs.OBJECT)
    assert [o.name for o in task.objectives] == ["fit", "worst"]
    start, exact = verdicts(task, task.initial, task.initial.replace("0.5 * x", "1.0 * x"))
    # 1 + 2.5 x against 1 + 3 x at 0, 1, 2.
    assert start.values == {"fit": -1.5, "worst": -1.0}
    assert "errors: [0.0, 0.5, 1.0]" in start.feedback
    assert exact.values["fit"] == 0.0
    assert all(a > b for a, b in zip(exact.rewards, start.rewards, strict=True))


@pytest.mark.parametrize("evaluator", [pairs.SUBPROCESS, pairs.POOLED])
def test_processes_threads_and_files_of_the_evaluator_work(tmp_path, evaluator):
    task, _ = adapted(tmp_path, pairs.MARKED, evaluator)
    (start,) = verdicts(task, task.initial)
    assert start.status == Status.OK, start
    offset = 0.5 if evaluator is pairs.SUBPROCESS else 0.0
    assert start.values["combined_score"] == pytest.approx(-abs(FOUND + offset), rel=1e-6)
    assert start.values.get("same", 1.0) == 1.0


def test_nothing_of_one_program_meets_the_next(tmp_path):
    task, _ = adapted(tmp_path, pairs.MARKED, pairs.DICT)
    leave = "import os; os.makedirs('/scratch/a/b'); open('/scratch/a/b/c', 'w').write('x' * 999)"
    leave += "; os.chmod('/scratch/a', 0); open('/dev/shm/d', 'w').close(); return 1.0"
    count = "import os; return float(sum(len(f) for p in ('/scratch', '/dev/shm') "
    count += "for _, _, f in os.walk(p)))"
    left, found = verdicts(task, searching(leave), searching(count))
    assert left.status == Status.OK
    # The program and its evaluator, and no third file.
    assert found.values["distance_from_0"] == 2.0


def test_stages_go_on_only_from_their_threshold(tmp_path):
    config = "evaluator:\n  cascade_thresholds: [0.9, 0.95]\n"
    task, notes = adapted(tmp_path, pairs.MARKED, pairs.STAGED, config)
    assert [stage.name for stage in task.stages] == ["evaluate_stage1", "evaluate_stage2"]
    assert not any("lowered" in note for note in notes)
    assert [o.name for o in task.objectives] == ["combined_score", "in_range", "precision"]
    start, poor, edge = verdicts(
        task, task.initial, searching("return 0.3"), searching("return -0.4000001")
    )
    assert start.status == Status.OK
    # The later stage has the last word on a metric of both.
    assert start.values["combined_score"] == pytest.approx(2 - abs(FOUND + 0.5))
    assert start.values["in_range"] == 1.0
    assert start.values["evaluate_stage1_score"] == pytest.approx(1 - abs(FOUND + 0.5))
    assert f"where: x={FOUND:.2f}" in start.feedback
    assert (poor.status, poor.stage, poor.rewards) == ("stage_floor", "evaluate_stage1", None)
    assert "it reaches 0.2, at least 0.9 is needed" in poor.feedback
    assert edge.status == Status.OK


def test_a_start_below_a_threshold_lowers_it_and_says_so(tmp_path):
    task, notes = adapted(tmp_path, searching("return 0.0"), pairs.STAGED)
    assert task.stages[-1].name == "evaluate_stage2"
    config = "evaluator: {cascade_thresholds: [0.8]}"
    again, notes = adapted(tmp_path / "b", searching("return 0.0"), pairs.STAGED, config)
    assert any("threshold is lowered from 0.8 to 0.45" in note for note in notes)
    (verdict,) = verdicts(again, again.initial)
    assert verdict.status == Status.OK
    off = "evaluator: {cascade_evaluation: false}"
    with pytest.raises(TaskError, match="the cascade goes by stages"):
        adapted(tmp_path / "c", pairs.MARKED, pairs.STAGED, off)


def test_failures_are_data_with_the_reason(tmp_path):
    reporting = pairs.DICT.replace("    x = program.search()\n", """\
    x = program.search()
    if x == 7:
        return {"combined_score": 0.0, "error": "seven is not allowed"}
    if x == 8:
        return {"combined_score": float("nan"), "distance from 0": 1.0, "seconds": 0.0}
    if x == 9:
        return 0.5
    if x == 10:
        return {"combined_score": 1.0}
""")  # fmt: skip
    task, _ = adapted(tmp_path, pairs.MARKED, reporting, "evaluator: {timeout: 1.5}")
    programs = {
        "return 7": (Status.WRONG, "seven is not allowed"),
        "return 8": (Status.WRONG, "no finite combined_score"),
        "return 9": (Status.WRONG, "returned float, a dict or a result object is needed"),
        "return 10": (Status.WRONG, "no finite distance from 0"),
        "return 1 / 0": (Status.WRONG, "program.py line 6: ZeroDivisionError"),
        "return no_such": (Status.WRONG, "program.py line 6: NameError"),
        # Neither a handler nor a thread of the evaluator could end these.
        "return sum(range(10**12))": (Status.TIMEOUT_WALL, ""),
        "import time; time.sleep(60)": (Status.TIMEOUT_WALL, ""),
        "import os; os._exit(0)": (Status.EXITED_EARLY, ""),
        "return [0] * 10**12": (Status.MEMORY, ""),
    }
    found = verdicts(task, *map(searching, programs), task.initial)
    for verdict, (body, (status, says)) in zip(found[:-1], programs.items(), strict=True):
        assert verdict.status == status, (body, verdict)
        assert says in verdict.feedback, (body, verdict.feedback)
        assert verdict.rewards is None
        assert verdict.wall_s < 10
    assert found[-1].status == Status.OK


def test_program_and_evaluator_stay_in_the_sandbox(tmp_path):
    canary = tmp_path / "canary"
    canary.write_text("secret")
    canary.chmod(0o666)
    deeds = [
        f"return len(open({str(canary)!r}).read())",
        f"open({str(canary)!r}, 'w').close()",
        "import socket; socket.create_connection(('127.0.0.1', 22), 1)",
        "import os; os.kill(os.getppid(), 9); import time; time.sleep(9)",
        "open('/usr/lib/x', 'w')",
        "import os; os.chmod('/usr/lib', 0o777)",
        "import ctypes, os; assert ctypes.CDLL(None).unshare(0x10000000) == 0",
        "import subprocess; subprocess.run(['/usr/bin/env', 'true'], check=True)",
        "import os\n    while True: os.fork()",
    ]
    task, _ = adapted(tmp_path, pairs.MARKED, pairs.DICT, "evaluator: {timeout: 2}")
    with open_pool(task, 1) as pool:
        for deed in deeds:
            verdict = evaluate(task, searching(deed), pool)
            assert verdict.status != Status.OK, deed
            assert evaluate(task, task.initial, pool).status == Status.OK, deed
    assert canary.read_text() == "secret"


def test_a_run_is_marked_resumed_and_the_same_again(tmp_path, command):
    initial, evaluator = pairs.write_pair(tmp_path / "pair", pairs.UNMARKED, pairs.OBJECT)
    config = tmp_path / "config.yaml"
    config.write_text("max_iterations: 30\nrandom_seed: 5\nllm: {model: none}\n")
    options = ("--policy", "mutate", "--set", "search.prompts=2", "--set", "search.rollouts=2")
    out = command("run", "--openevolve", initial, evaluator, "--config", config, *options,
                  "--out", tmp_path / "one").stdout  # fmt: skip
    assert "SELF-JUDGED: the evaluator runs beside the program that it judges" in out
    assert "these fields mean nothing here: llm.model" in out
    assert "tier A, self-judged" in out
    assert "tier A, self-judged" in command("ls", tmp_path).stdout
    shown = command("show", tmp_path / "one", 0).stdout
    assert "self-judged" in shown
    assert "its evaluation left: errors: [0.0, 0.5, 1.0]" in shown
    # Half of it, and the rest on a resume: scales that grow are rebuilt on the way.
    half = tmp_path / "two"
    command("run", "--openevolve", initial, evaluator, "--config", config, *options,
            "--evaluations", "15", "--out", half)  # fmt: skip
    text = (half / "config.toml").read_text()
    (half / "config.toml").write_text(text.replace("evaluations = 15", "evaluations = 30"))
    command("resume", half)
    with Store(tmp_path / "one") as one, Store(half) as two:
        assert [r.rewards for r in one.evaluations()][:16] == [
            r.rewards for r in two.evaluations()
        ][:16]
        assert len(list(two.evaluations())) == 31
        assert one.meta("self_judged") is True
        assert ("SELF-JUDGED" in {kind for _, kind, _ in one.events()}) is True
        best = max((r for r in one.evaluations() if r.rewards), key=lambda r: r.raw["fit"])
        every = [r for r in one.evaluations() if r.rewards]
        # Rewards of different rounds agree with the order of the values.
        assert all((a.raw["fit"] < best.raw["fit"]) == (a.rewards[0] < best.rewards[0])
                   for a in every)  # fmt: skip


@pytest.mark.parametrize(
    ("initial", "evaluator", "says"),
    [
        (pairs.MARKED, "def judge(path):\n    return {}\n", "defines no evaluate(program_path)"),
        (pairs.MARKED, "def evaluate(path:\n", "evaluator.py, line 1"),
        ("def f(:\n", pairs.DICT, "initial_program.py, line 1"),
        (pairs.MARKED.replace("# EVOLVE-BLOCK-END", ""), pairs.DICT, "EVOLVE-BLOCK-END"),
        (pairs.UNMARKED, pairs.DICT, "starting program fails in evaluate of evaluator.py"),
        (pairs.MARKED, "def evaluate(path):\n    return {'a': 'b'}\n", "no finite number"),
        (pairs.MARKED, "import no_such\ndef evaluate(p): return {}\n", "evaluator.py line 1"),
    ],
)
def test_an_unusable_pair_is_one_line_and_leaves_nothing(tmp_path, initial, evaluator, says):
    files = pairs.write_pair(tmp_path / "pair", initial, evaluator)
    with pytest.raises(EvolveError) as caught:
        prepare(*files, None, [], None, tmp_path / "run")
    assert says in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_the_command_explains_its_files(tmp_path, command):
    initial, evaluator = pairs.write_pair(tmp_path / "pair", pairs.MARKED, pairs.DICT)
    for arguments in (("--openevolve", initial), (initial, evaluator)):
        assert "--openevolve takes two files" in command("run", *arguments, code=2).stderr
    missing = command("run", "--openevolve", initial, tmp_path / "none.py", code=2).stderr
    assert missing.startswith("error: ")
    assert "none.py: no such file" in missing
    line = command("run", "--openevolve", initial, evaluator, "--policy", "gpt", "--out",
                   tmp_path / "r", code=2).stderr  # fmt: skip
    assert "policy 'gpt'" in line
    assert not (tmp_path / "r").exists()


def test_settings_are_read_and_faults_named(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "max_iterations: 7\nevaluator:\n  timeout: 12\n  cascade_thresholds: [1, 2.5]\n"
        "  parallel_evaluations: 3\ndatabase: {num_islands: 2}\nprompt: {system_message: Hello}\n"
    )
    assert read_settings(path) == PairSettings(
        12.0, True, (1.0, 2.5), 3, 7, None, "Hello", ("database.num_islands",)
    )
    assert read_settings(None) == PairSettings()
    for text, says in (
        ("evaluator: {timeout: fast}", "evaluator.timeout = 'fast': a positive number"),
        ("max_iterations: 0", "max_iterations = 0: an integer from 1 on"),
        ("evaluator: {cascade_thresholds: 0.5}", "a list of finite numbers"),
        ("a: [", "not valid YAML"),
        ("- 1", "holds no fields"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            read_settings(path)
        assert says in str(caught.value)
    with pytest.raises(ConfigError, match="no such configuration"):
        read_settings(tmp_path / "none.yaml")


def test_the_folder_holds_the_pair_as_it_was(tmp_path):
    adapted(tmp_path, pairs.MARKED, pairs.DICT)
    folder = tmp_path / "run" / "task"
    assert (folder / "evaluator.py").read_text() == pairs.DICT
    assert (folder / "initial.py").read_text() == pairs.MARKED
    pair = json.loads((folder / "pair.json").read_text())
    assert [call["function"] for call in pair["calls"]] == ["evaluate"]
    with pytest.raises(ConfigError, match="--minimise time: the evaluator reports no such metric"):
        adapted(tmp_path / "b", pairs.MARKED, pairs.DICT, minimise=["time"])
