"""The judge's module of a shipped task, to test the functions behind ``score``."""

import importlib
from types import ModuleType, SimpleNamespace

from evolve.task import Task


def judge_module(name: str) -> ModuleType:
    return importlib.import_module(f"tasks.{name}.task")


def program_of(source: str) -> SimpleNamespace:
    """Return a candidate as ``run`` gets it."""
    names: dict[str, object] = {}
    exec(source, names)
    return SimpleNamespace(**names)


def runner_of(task: Task):
    """Return the task's ``run``."""
    names: dict[str, object] = {}
    exec(task.runner, names)
    return names["run"]
