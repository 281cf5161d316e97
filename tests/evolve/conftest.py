"""A small task on disk, and the command line as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

INITIAL = """\
import math

# EVOLVE-BLOCK-START
def solve(x):
    y = x * 2 + 1
    z = y - 3
    if z > 4:
        y = y - z / 2
    return y + z * 0.5
# EVOLVE-BLOCK-END
"""

RUN = """\
def run(program, given):
    return [float(program.solve(x)) for x in given["xs"]]
"""

TASK = """\
from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Task

TARGETS = {"square": lambda x: x * x, "line": lambda x: 3 * x - 1, "flat": lambda x: 2.0}
XS = [0.0, 0.5, 1.0, 2.0, 3.0]


def score(output, case):
    if len(output) != len(XS):
        raise Invalid(f"{len(output)} values, {len(XS)} are needed")
    error = sum(abs(a - b) for a, b in zip(output, case.hidden)) / len(XS)
    return {case.name: error}


TASK = Task(
    summary="Write solve(x) so that it is close to three curves at once.",
    objectives=[Objective(name, 0.0, 10.0, "min") for name in TARGETS],
    descriptors=[Descriptor("ast_nodes", 3.0, 7.0, 8), Descriptor("cyclomatic", 1.0, 6.0, 5)],
    cases=[Case(n, {"xs": XS}, [f(x) for x in XS]) for n, f in TARGETS.items()],
    score=score,
    limits=Limits(wall_s=5.0, cpu_s=2.0, memory_mb=512),
    preload=(),
)
"""


def write_toy_task(place: Path) -> Path:
    """Write the toy task into a folder of its own below ``place``."""
    folder = place / "toy"
    folder.mkdir()
    (folder / "initial.py").write_text(INITIAL)
    (folder / "run.py").write_text(RUN)
    (folder / "task.py").write_text(TASK)
    return folder


@pytest.fixture
def toy_task(tmp_path) -> Path:
    """A task folder whose evaluation takes no time: three curves, one function."""
    return write_toy_task(tmp_path)


@pytest.fixture
def command():
    """Run ``evolve`` in a process of its own; ``command.start`` leaves it running."""
    return Command()


@pytest.fixture
def plain_command():
    """The same without pictures at the end of a run."""
    return Command(pictures=False)


#: The console script, but for the pictures at the end of a run: they take longer than a small run.
WITHOUT_PICTURES = """
import evolve.plots
evolve.plots.plot_run = lambda *_: []
from evolve.cli import main
main()
"""


class Command:
    """The console script of this environment, one thread for every library."""

    def __init__(self, *, pictures: bool = True) -> None:
        self.script = Path(sys.executable).with_name("evolve")
        without = [sys.executable, "-c", WITHOUT_PICTURES]
        self.start_with = [str(self.script)] if pictures else without
        threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self.environment = {**os.environ, **dict.fromkeys(threads, "1")}

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.start_with, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def __call__(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=240)
        assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
