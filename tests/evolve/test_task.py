"""The task contract: what it accepts, and the one line with which it refuses the rest."""

import math

import pytest

from evolve.errors import TaskError
from evolve.task import (
    Case,
    Descriptor,
    Invalid,
    Limits,
    Objective,
    Stage,
    Task,
    load_task,
    task_folders,
)


def make(**changes):
    parts = {
        "summary": "Something.",
        "objectives": [Objective("gain", 0, 1), Objective("cost", 0, 1, "min")],
        "descriptors": [Descriptor("ast_nodes", 3, 8)],
        "cases": [Case("one", 1), Case("two", 2)],
        "score": lambda output, case: {"gain": 0.5, "cost": 0.5},  # noqa: ARG005
    }
    return Task(**{**parts, **changes})


@pytest.mark.parametrize(
    ("direction", "value", "reward"),
    [
        ("max", 0.0, 0.0),
        ("max", 5.0, 0.25),
        ("max", 20.0, 1.0),
        ("max", 99.0, 1.0),
        ("max", -3.0, 0.0),
        ("min", 0.0, 1.0),
        ("min", 5.0, 0.75),
        ("min", 99.0, 0.0),
    ],
)
def test_a_reward_is_the_clipped_share_of_the_range(direction, value, reward):
    assert Objective("x", 0.0, 20.0, direction).reward(value) == reward


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reward_needs_a_finite_number(value):
    with pytest.raises(Invalid, match="objective 'x' is .*, a finite number is needed"):
        Objective("x", 0.0, 1.0).reward(value)


def test_without_stages_every_case_is_run_in_one():
    task = make()
    assert [(stage.name, stage.cases) for stage in task.stages] == [("all", ("one", "two"))]
    assert task.k == 2
    assert task.case("two").given == 2


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Objective("a b", 0, 1), "letters, digits and '_' are allowed"),
        (lambda: Objective("x\n", 0, 1), "letters, digits and '_' are allowed"),
        (lambda: Objective("a", 1, 1), "finite low < high is needed"),
        (lambda: Objective("a", 0, math.inf), "finite low < high is needed"),
        (lambda: Objective("a", 0, 1, "up"), "allowed: 'max', 'min'"),
        (lambda: Descriptor("d", 2, 1), "finite low < high is needed"),
        (lambda: Descriptor("d", 0, 1, bins=0), "at least 1 is needed"),
        (lambda: Limits(wall_s=0), "wall_s is 0, a positive number is needed"),
        (lambda: Limits(memory_mb=math.nan), "memory_mb is nan"),
        (lambda: Limits(cpu_s="2"), "cpu_s is '2'"),
        (lambda: make(objectives=[]), "objectives is empty"),
        (lambda: make(descriptors=[]), "descriptors is empty"),
        (lambda: make(cases=[]), "cases is empty"),
        (lambda: make(cases=[Case("a", 1), Case("a", 2)]), "case name 'a' is used twice"),
        (
            lambda: make(objectives=[Objective("a", 0, 1), Objective("a", 0, 2)]),
            "objective name 'a' is used twice",
        ),
        (
            lambda: make(descriptors=[Descriptor("a", 0, 1), Descriptor("a", 0, 2)]),
            "descriptor name 'a' is used twice",
        ),
        (lambda: make(stages=[Stage("s", ("three",))]), "no case 'three'; cases: ['one', 'two']"),
        (lambda: make(stages=[Stage("s", ("one",))]), "cases ['two'] are in no stage"),
        (
            lambda: make(stages=[Stage("s", ("one",)), Stage("t", ("one", "two"))]),
            "stage case name 'one' is used twice",
        ),
        (
            lambda: make(stages=[Stage("s", ("one",)), Stage("s", ("two",))]),
            "stage name 's' is used twice",
        ),
        (
            lambda: make(stages=[Stage("s", ("one", "two"), {"speed": 0.5})]),
            "no objective 'speed'; objectives: ['gain', 'cost']",
        ),
    ],
)
def test_a_bad_declaration_is_one_line(build, says):
    with pytest.raises(TaskError) as caught:
        build()
    message = str(caught.value)
    assert says in message
    assert "\n" not in message


def test_a_folder_becomes_a_task(toy_task):
    task = load_task(toy_task)
    assert task.name == "toy"
    assert task.folder == toy_task
    assert task.initial == (toy_task / "initial.py").read_text()
    assert task.runner.startswith("def run(")
    assert load_task(str(toy_task)).k == 3


def test_two_folders_of_one_name_do_not_meet(toy_task, tmp_path):
    other = tmp_path / "elsewhere" / "toy"
    other.mkdir(parents=True)
    for file in toy_task.iterdir():
        (other / file.name).write_text(file.read_text().replace("three curves", "four curves"))
    first, second = load_task(toy_task), load_task(other)
    assert "three" in first.summary
    assert "four" in second.summary


def test_shipped_tasks_are_found_by_name():
    folders = task_folders()
    assert list(folders) == sorted(folders)
    assert {"circle_packing", "online_bin_packing", "symbolic_regression"} <= set(folders)
    assert load_task("circle_packing").folder == folders["circle_packing"]


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("task.py", "x = 1\n", "task.py: no TASK = Task(...) is defined"),
        ("task.py", "TASK = 3\n", "task.py: no TASK = Task(...) is defined"),
        ("task.py", "x = 1\nx = = 2\n", "task.py, line 2: SyntaxError"),
        ("task.py", "x = 1\n\ny = x / 0\n", "task.py, line 3: ZeroDivisionError"),
        ("task.py", "import no_such_module\n", "line 1: ModuleNotFoundError"),
        ("task.py", "from evolve.task import Limits\nLimits(wall_s=-1)\n", "wall_s is -1"),
        ("run.py", "def drive(program, given): pass\n", "no function run(program, given)"),
        ("run.py", None, "run.py: missing, a task folder needs it"),
        ("initial.py", None, "initial.py: missing, a task folder needs it"),
        ("initial.py", b"x = '\xff'", "initial.py: not UTF-8 text"),
    ],
)
def test_a_broken_folder_is_one_line(toy_task, file, text, says):
    if text is None:
        (toy_task / file).unlink()
    elif isinstance(text, bytes):
        (toy_task / file).write_bytes(text)
    else:
        (toy_task / file).write_text(text)
    with pytest.raises(TaskError) as caught:
        load_task(toy_task)
    assert says in str(caught.value)
    assert str(toy_task) in str(caught.value)


def test_an_unknown_task_names_those_that_ship(tmp_path):
    with pytest.raises(TaskError, match="unknown task 'nonesuch'.*circle_packing"):
        load_task("nonesuch")
    with pytest.raises(TaskError, match="no folder with a task.py there"):
        load_task(tmp_path)
