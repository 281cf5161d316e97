"""A new task folder that runs as it is: a small real problem to be replaced by one's own.

The example is the 0/1 knapsack problem on three kinds of items; each kind is a reward.
"""

from __future__ import annotations

import re
from pathlib import Path

from evolve.errors import TaskError
from evolve.task import task_folders

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_INITIAL = '''\
"""The starting program: what is between the markers is evolved, the rest stays as it is."""

import numpy as np


# EVOLVE-BLOCK-START
def worth(values, weights, capacity):
    size = weights / np.mean(weights)
    gain = values / np.mean(values)
    return gain - 0.3 * size


# EVOLVE-BLOCK-END
'''

_RUN = '''\
"""Drives a candidate, inside the sandbox. Answers and tolerances belong into task.py."""

import numpy as np


def run(program, given):
    """Return the items that a greedy packer takes in the order of the candidate's figures.

    ``program`` is the candidate, imported as a module; ``given`` is the ``given`` of a case. What
    is returned must be plain data: numbers, strings, lists, dicts, numpy arrays.
    """
    values, weights = np.array(given["values"]), np.array(given["weights"])
    order = np.argsort(-program.worth(values, weights, given["capacity"]), kind="stable")
    room = given["capacity"]
    taken = []
    for item in order.tolist():
        if weights[item] <= room:
            room -= int(weights[item])
            taken.append(item)
    return taken
'''

_TASK = '''\
"""Declares the task and judges answers. It runs outside the sandbox and imports no candidate."""

import numpy as np

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Task


def make_case(kind, number):
    """Return 100 items of one kind; equal numbers give equal items."""
    rng = np.random.default_rng([2025, number])
    weights = rng.integers(10, 100, 100)
    if kind == "free":
        values = rng.integers(10, 100, 100)
    elif kind == "similar":
        values = weights + rng.integers(-5, 6, 100)
    else:
        values = 100 - weights + rng.integers(1, 100, 100) * (rng.random(100) < 0.1)
    given = {
        "values": values.tolist(),
        "weights": weights.tolist(),
        "capacity": int(weights.sum()) // 4,
    }
    return Case(kind, given)


def bound(values, weights, capacity):
    """Return a value that no choice exceeds: the best when items may be cut (Dantzig 1957)."""
    total = 0.0
    for value, weight in sorted(zip(values, weights), key=lambda item: -item[0] / item[1]):
        part = min(weight, capacity)
        total += value * part / weight
        capacity -= part
    return total


def score(output, case):
    """Return the raw values of one answer; raise Invalid(why) to refuse it.

    Everything is recomputed from the answer: a candidate's own word about itself counts nothing.
    """
    values, weights = case.given["values"], case.given["weights"]
    if not isinstance(output, list) or not all(type(i) is int for i in output):
        raise Invalid("the answer is not a list of item numbers")
    if len(set(output)) != len(output) or not all(0 <= i < len(values) for i in output):
        raise Invalid("an item is taken twice or does not exist")
    if sum(weights[i] for i in output) > case.given["capacity"]:
        raise Invalid("the items are heavier than the knapsack allows")
    best = bound(values, weights, case.given["capacity"])
    return {
        # The objective of this case; a case may also report several, or all cases the same ones.
        case.name: 100 * sum(values[i] for i in output) / best,
        "taken": len(output),
    }


TASK = Task(
    summary="Order the items of a 0/1 knapsack problem for a greedy packer.",
    # Each maps a raw value to a reward in [0, 1]: low earns 0, high earns 1 (or the other way
    # round with "min"). 3 to 16 of them, and they should not all ask for the same.
    objectives=[
        Objective("free", 70, 100, unit="% of the bound"),
        Objective("similar", 70, 100, unit="% of the bound"),
        Objective("opposed", 70, 100, unit="% of the bound"),
    ],
    # The axes of the archive: measured on the program by the toolkit, or returned by score.
    descriptors=[
        Descriptor("ast_nodes", 4, 8, bins=8, unit="log2 nodes"),
        Descriptor("taken", 10, 60, bins=10, unit="items"),
    ],
    cases=[make_case(kind, number) for number, kind in enumerate(["free", "similar", "opposed"])],
    score=score,
    limits=Limits(wall_s=2, cpu_s=2, memory_mb=1024),
    # Objective -> (best known raw value, where it comes from), for the reports.
    best_known={
        kind: (100.0, "no choice exceeds the bound") for kind in ["free", "similar", "opposed"]
    },
)
'''

_README = """\
# {name}

Pack a knapsack: a program gives every item a figure, the items are taken in that order while they
fit. Three kinds of items, one reward each: value and weight unrelated (`free`), nearly equal
(`similar`), opposed but for a tenth of the items (`opposed`).

- `initial.py` is the program that a search starts from.
- `run.py` asks a candidate for an answer, inside the sandbox.
- `task.py` holds the cases and judges the answers.

A reward is the value in the knapsack as a share of what it would be if items could be cut, which
is never less than the best (Dantzig, 1957): 100 % is out of reach, and close to it on all kinds is
the aim.

    evolve check {name}
    evolve run {name} --policy mutate --evaluations 500
"""


def write_task(folder: Path) -> list[Path]:
    """Write a task that runs as it is into a new folder and return its files.

    Raises:
        TaskError: If the folder's name is no identifier or a shipped task's, or something is there
            already.
    """
    if not _NAME.match(folder.name):
        raise TaskError(f"{folder.name!r} cannot name a task: letters, digits and '_' are allowed")
    if str(folder) in task_folders():
        raise TaskError(
            f"{folder}: a shipped task has this name, and `evolve run {folder}` would mean that; "
            f"choose another name"
        )
    texts = {
        "task.py": _TASK,
        "run.py": _RUN,
        "initial.py": _INITIAL,
        "README.md": _README.format(name=folder),
    }
    try:
        folder.mkdir(parents=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise TaskError(f"{folder}: is there already; a new task needs a new folder") from None
    except OSError as error:
        raise TaskError(f"{folder}: cannot be written: {error.strerror}") from None
    return [folder / name for name in texts]
