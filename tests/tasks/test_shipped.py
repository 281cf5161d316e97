"""Every shipped task: complete, runnable, and with room above its starting program."""

import pytest

from evolve.check import check_task
from evolve.program import split_blocks
from evolve.task import load_task, task_folders

NAMES = sorted(task_folders())


@pytest.mark.parametrize("name", NAMES)
def test_its_starting_program_passes_the_check(name):
    task = load_task(name)
    # Rewards are looked at in enough mutants for the warnings to mean something.
    report = check_task(task, mutants=40)
    assert report.verdict.rewards is not None
    assert report.deterministic
    assert report.warnings == ()
    assert task.k >= 3
    assert report.valid >= 0.4 * report.mutants
    mean = sum(report.verdict.rewards) / task.k
    assert 0.05 < mean < 0.8


@pytest.mark.parametrize("name", NAMES)
def test_its_best_known_values_are_declared_with_a_source_and_explained(name):
    task = load_task(name)
    readme = (task.folder / "README.md").read_text(encoding="utf-8")
    assert readme.startswith(f"# {name}\n")
    assert task.best_known
    for objective in task.objectives:
        assert f"`{objective.name}`" in readme
    for value, source in task.best_known.values():
        assert f"{value:g}" in readme or str(value) in readme
        assert source


@pytest.mark.parametrize("name", NAMES)
def test_its_block_is_short_enough_for_a_small_prompt(name):
    lines = [line for block in split_blocks(load_task(name).initial) for line in block.lines]
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
