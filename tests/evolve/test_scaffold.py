"""A new task runs as it is."""

from pathlib import Path

import numpy as np
import pytest

from evolve.check import check_task
from evolve.errors import TaskError
from evolve.scaffold import write_task
from evolve.task import Case, Invalid, load_task


def test_the_skeleton_is_a_task_that_passes_its_check(tmp_path):
    files = write_task(tmp_path / "bag")
    assert sorted(file.name for file in files) == ["README.md", "initial.py", "run.py", "task.py"]
    report = check_task(load_task(tmp_path / "bag"))
    assert report.verdict.rewards is not None
    assert report.deterministic
    assert report.warnings == ()
    assert report.hygiene.effective_rank > 1.5
    assert all(0.2 < reward < 0.99 for reward in report.verdict.rewards)


def test_its_readme_names_its_folder(tmp_path):
    write_task(tmp_path / "bag")
    assert f"evolve check {tmp_path / 'bag'}" in (tmp_path / "bag" / "README.md").read_text()


def best_value(values, weights, capacity):
    """Return the optimum of a knapsack by dynamic programming."""
    best = np.zeros(capacity + 1, dtype=int)
    for value, weight in zip(values, weights, strict=True):
        best[weight:] = np.maximum(best[weight:], best[: capacity + 1 - weight] + value)
    return int(best[-1])


def test_its_bound_is_one_and_a_close_one(tmp_path):
    write_task(tmp_path / "bag")
    for case in load_task(tmp_path / "bag").cases:
        given = case.given
        optimum = best_value(given["values"], given["weights"], given["capacity"])
        task = load_task(tmp_path / "bag")
        # All items of an optimum would score this share of the bound.
        names = {}
        exec((tmp_path / "bag" / "task.py").read_text(), names)
        bound = names["bound"](given["values"], given["weights"], given["capacity"])
        assert optimum <= bound <= 1.01 * optimum
        assert task.score([], case) == {case.name: 0.0, "taken": 0}


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not a list"),
        ([0.0], "not a list"),
        ([True], "not a list"),
        ([0, 0], "taken twice"),
        ([3], "does not exist"),
        ([-1], "does not exist"),
        ([0, 1], "heavier"),
    ],
)
def test_its_judge_refuses_what_is_no_answer(tmp_path, output, says):
    write_task(tmp_path / "bag")
    case = Case("free", {"values": [1, 2, 3], "weights": [2, 3, 4], "capacity": 4})
    with pytest.raises(Invalid) as caught:
        load_task(tmp_path / "bag").score(output, case)
    assert says in str(caught.value)


def test_nothing_is_overwritten(tmp_path):
    write_task(tmp_path / "bag")
    (tmp_path / "bag" / "task.py").write_text("mine")
    with pytest.raises(TaskError, match="is there already; a new task needs a new folder"):
        write_task(tmp_path / "bag")
    assert (tmp_path / "bag" / "task.py").read_text() == "mine"


@pytest.mark.parametrize("name", ["my-task", "2nd", "a b", ""])
def test_a_name_must_be_an_identifier(tmp_path, name):
    with pytest.raises(TaskError, match="letters, digits and '_' are allowed"):
        write_task(tmp_path / name / "" if name else tmp_path / "a-b")


def test_a_shipped_task_is_not_shadowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError, match="a shipped task has this name"):
        write_task(Path("circle_packing"))
    assert write_task(Path("mine") / "circle_packing")


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TaskError, match="cannot be written: Not a directory"):
        write_task(tmp_path / "file" / "bag")
