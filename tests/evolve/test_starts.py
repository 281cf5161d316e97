"""What starting programs reach: measured once for each text of a task, never written down."""

import json

import pytest

from evolve import starts
from evolve.check import check_each
from evolve.errors import TaskError
from evolve.task import load_task


def test_figures_are_measured_once_and_again_when_the_task_changes(toy_task, tmp_path):
    cache = tmp_path / "cache"
    start = starts.start_of(load_task(toy_task), cache)
    # |2 x + 1 + (2 x - 2) / 2 - (3 x - 1)| = 1 at every x.
    assert start.values["line"] == pytest.approx(1.0)
    assert 0 < start.seconds < 5
    (kept,) = cache.iterdir()
    tree = json.loads(kept.read_text())
    tree["seconds"] = 123.0
    kept.write_text(json.dumps(tree))
    assert starts.start_of(load_task(toy_task), cache).seconds == 123.0
    text = (toy_task / "initial.py").read_text()
    (toy_task / "initial.py").write_text(text.replace("y = x * 2 + 1", "y = x * 2 + 2"))
    changed = starts.start_of(load_task(toy_task), cache)
    # Now 2.5 off, but at x = 3, where the branch takes it back to the line.
    assert changed.values["line"] == pytest.approx(4 * 2.5 / 5)
    assert changed.seconds != 123.0


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"values": {"line": "x"}, "seconds": 1}'])
def test_a_damaged_file_is_measured_again(toy_task, tmp_path, text):
    task, cache = load_task(toy_task), tmp_path / "cache"
    first = starts.start_of(task, cache)
    (kept,) = cache.iterdir()
    kept.write_text(text)
    assert starts.start_of(task, cache).values == first.values
    assert json.loads(kept.read_text())["values"] == first.values


def test_a_cache_that_cannot_be_written_is_no_error(toy_task, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert starts.start_of(load_task(toy_task), blocked / "cache").values["line"] == 1.0


def test_a_starting_program_that_fails_is_one_line(toy_task, tmp_path):
    text = (toy_task / "initial.py").read_text()
    (toy_task / "initial.py").write_text(text.replace("y = x * 2 + 1", "y = x / 0"))
    with pytest.raises(TaskError, match="initial.py: the starting program fails .*ZeroDivision"):
        starts.start_of(load_task(toy_task), tmp_path)


def test_one_unusable_task_does_not_stop_the_others(toy_task, tmp_path):
    found = dict(check_each([str(tmp_path / "none"), str(toy_task)], mutants=0))
    assert isinstance(found[str(tmp_path / "none")], TaskError)
    assert found[str(toy_task)].verdict.rewards is not None


@pytest.mark.slow
def test_every_shipped_task_is_green_and_listed(command):
    out = command("check", "--all").stdout
    assert "0 with warnings" in out, out
    listed = command("tasks").stdout
    for name in ("circle_packing", "tsp"):
        assert f"\n{name}  k=" in f"\n{listed}"
    assert "seed 2.21967" in listed
    assert "best known 2.635983077" in listed
