"""Checking a task: what a good one shows, and the one line on what is wrong with a bad one."""

import numpy as np
import pytest

from evolve.check import check_task, mutants_of, report_lines
from evolve.errors import EvolveError
from evolve.program import fingerprint
from evolve.task import load_task


def check(folder, **options):
    return check_task(load_task(folder), **{"mutants": 0, "workers": 1, **options})


def replace(folder, file, old, new):
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))


def test_a_good_task_is_reported_in_figures_that_can_be_worked_out(toy_task):
    report = check(toy_task)
    # solve(x) for x = 0, 0.5, 1, 2, 3: y = 2x + 1, z = 2x - 2, no branch until z > 4.
    answers = [(2 * x + 1) + (2 * x - 2) / 2 for x in (0, 0.5, 1, 2, 3)]
    line = sum(abs(a - (3 * x - 1)) for a, x in zip(answers, (0, 0.5, 1, 2, 3), strict=True)) / 5
    assert report.verdict.values["line"] == pytest.approx(line)
    assert report.verdict.rewards[1] == pytest.approx(1 - line / 10)
    assert report.deterministic
    assert report.verdict.descriptors[1] == 2.0
    # 1..6 in five bins: 2 is the lower edge of the second.
    assert report.cell[1] == 1
    assert 0 < report.seconds < 5


def test_the_lines_say_what_the_report_holds(toy_task):
    report = check(toy_task, mutants=20)
    text = "\n".join(report_lines(report))
    for part in ("toy: 3 rewards, 3 cases in 1 stage, 6 lines to evolve", "two runs agree"):
        assert part in text
    for name, reward in zip(("square", "line", "flat"), report.verdict.rewards, strict=True):
        assert any(name in row and f"{reward:.3f}" in row for row in text.splitlines())
    assert f"{report.valid} of {report.mutants} valid" in text
    assert report.mutants == 20
    assert report.valid > 10


def test_equal_seeds_give_equal_mutants(toy_task):
    source = load_task(toy_task).initial
    one = mutants_of(source, 25, np.random.default_rng(3))
    assert one == mutants_of(source, 25, np.random.default_rng(3))
    assert one != mutants_of(source, 25, np.random.default_rng(4))
    assert len({fingerprint(program) for program in [source, *one]}) == 26


def test_luck_is_noticed(toy_task):
    replace(toy_task, "initial.py", "import math", "import math, os")
    replace(toy_task, "initial.py", "y = x * 2 + 1", "y = x * 2 + os.urandom(1)[0]")
    report = check(toy_task)
    assert not report.deterministic
    assert any("two runs of the starting program gave different" in w for w in report.warnings)
    assert "two runs differ" in "\n".join(report_lines(report))


def test_what_makes_a_run_pointless_is_a_warning(toy_task):
    replace(toy_task, "task.py", '0.0, 10.0, "min"', '90.0, 99.0, "min"')
    replace(toy_task, "task.py", '"cyclomatic", 1.0, 6.0', '"cyclomatic", 5.0, 6.0')
    replace(
        toy_task, "task.py", "    preload=(),", "    preload=(), best_known={'curve': (0, 'me')},"
    )
    report = check(toy_task, mutants=20)
    said = "\n".join(report.warnings)
    assert "the starting program has the full reward square" in said
    assert "descriptor cyclomatic of the starting program is 2, outside 5..6" in said
    assert "best_known names 'curve', which is no objective (square, line, flat)" in said
    assert "1 different reward vectors" in said
    assert "ok, with" in list(report_lines(report))[-1]


def test_rewards_that_say_the_same_are_told(toy_task):
    replace(toy_task, "task.py", "(output, case.hidden)", "(output, XS)")
    said = "\n".join(check(toy_task, mutants=40).warnings)
    assert "rewards square and line move as one" in said
    assert "the 3 rewards are worth 1.00 independent ones" in said


WRONG = [
    # file, old, new, what the one line must say
    ("initial.py", "# EVOLVE-BLOCK-END\n", "", ["initial.py", "EVOLVE-BLOCK"]),
    ("initial.py", "EVOLVE-BLOCK", "EVOLVE-BLOK", ["initial.py", "block"]),
    ("initial.py", "def solve(x):", "def solv(x):", ["initial.py", "solve"]),
    ("initial.py", "def solve(x):", "def solve(x:", ["initial.py", "line 4"]),
    ("initial.py", "z = y - 3", "z = y - w", ["initial.py", "line 6", "NameError", "'w'"]),
    ("initial.py", "import math", "import maths", ["initial.py", "line 1", "maths"]),
    ("initial.py", "return y + z * 0.5", "return float('nan')", ["initial.py", "finite"]),
    ("run.py", 'given["xs"]', 'given["ys"]', ["run.py", "line 2", "KeyError"]),
    ("run.py", "def run(", "import no_such_thing\ndef run(", ["no_such_thing"]),
    ("task.py", "preload=()", "preload=('no_such_thing',)", ["no_such_thing"]),
    (
        "task.py",
        "return {case.name: error}",
        "return {case.name: float('nan')}",
        ["'square'", "nan"],
    ),
    ("task.py", "return {case.name: error}", "return {}", ["no case reports", "'square'"]),
    ("task.py", "return {case.name: error}", "return error", ["float", "dict"]),
    ("task.py", "return {case.name: error}", "return {'x': 1 / 0}", ["task.py", "ZeroDivision"]),
    ("task.py", '"cyclomatic", 1.0', '"elegance", 1.0', ["'elegance'", "cyclomatic"]),
    ("task.py", "len(output) != len(XS)", "True", ["5 values, 5 are needed"]),
    ("task.py", "wall_s=5.0", "wall_s=0.0", ["wall_s is 0.0"]),
]


@pytest.mark.parametrize(("file", "old", "new", "says"), WRONG, ids=[" ".join(w[3]) for w in WRONG])
def test_what_is_wrong_is_one_line(toy_task, file, old, new, says):
    replace(toy_task, file, old, new)
    with pytest.raises(EvolveError) as caught:
        check(toy_task)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_code == 2
    for part in says:
        assert part in message


def test_a_program_that_never_ends_is_one_line(toy_task):
    replace(toy_task, "initial.py", "z = y - 3", "z = y - 3\n    while True: pass")
    replace(toy_task, "task.py", "wall_s=5.0", "wall_s=0.5")
    with pytest.raises(EvolveError, match="the starting program fails .timeout_wall"):
        check(toy_task)
