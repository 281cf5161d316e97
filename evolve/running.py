"""How the programs of a task run: what they may use, how they are timed, by which commands.

Declarations alone, a part of the task contract; :mod:`evolve.task` hands them on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evolve.errors import TaskError

#: ``run.py`` of a command task that has none: the input of a case is what the program reads.
COMMAND_RUNNER = "def run(program, given):\n    return program(given)\n"


@dataclass(frozen=True)
class Limits:
    """What one candidate may use. Exceeding any is a scored failure, never an error.

    Attributes:
        wall_s: Wall-clock seconds for one case.
        cpu_s: CPU seconds for the candidate, all cases together; for one case where a process of
            its own answers it.
        memory_mb: Address space, MiB.
        output_kb: Size of one answer, KiB; printed text is cut at the same size.
        scratch_mb: Size of an own folder that it may write into, MiB: ``/scratch``, emptied after
            each candidate. 0 for none; anything else needs isolation of tier A.
        processes: Processes and threads that it may start beside the first, each within the same
            limits. 0 for threads only; anything else needs isolation of tier A.
    """

    wall_s: float = 10.0
    cpu_s: float = 10.0
    memory_mb: int = 2048
    output_kb: int = 1024
    scratch_mb: int = 0
    processes: int = 0

    def __post_init__(self) -> None:
        for name in ("scratch_mb", "processes"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise TaskError(f"limits: {name} is {value!r}, an integer from 0 on is needed")
        for name in ("wall_s", "cpu_s", "memory_mb", "output_kb"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise TaskError(f"limits: {name} is {value!r}, a positive number is needed")


#: The raw value that a task with a :class:`Timing` gets measured: reference time / own time.
SPEEDUP = "speedup"


@dataclass(frozen=True)
class Timing:
    """Measures how fast a program is, against a reference measured beside it.

    Programs that passed every stage run again in the lane: a worker on a core of its own, one
    program at a time, in turn with the reference. Each run is a fresh process, so nothing can be
    remembered from the one before, and its answers must be the same as before. What is reported,
    as the value ``speedup``, is the median over the pairs of reference time / own time; seconds
    count from the fork to the last answer, by the judge's clock. A program that would be the
    fastest so far is measured again, and the smaller figure counts.

    The task needs an :class:`Objective` called ``speedup`` with a ``bound``. Give cases work for
    0.05 seconds or more: forking and loading take some milliseconds of each run.

    Attributes:
        reference: Source of the program to compare with; by default the starting program.
        pairs: Number of pairs of runs, odd.
        cases: Names of the cases to run, in order; by default all.
    """

    reference: str = ""
    pairs: int = 5
    cases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (isinstance(self.pairs, int) and self.pairs >= 3 and self.pairs % 2):
            raise TaskError(f"timing: pairs is {self.pairs!r}, an odd number from 3 on is needed")


@dataclass(frozen=True)
class Command:
    """How programs of a task are built and run, in whatever language they are.

    Both commands run in the folder that holds the files of the program, inside the sandbox, which
    must be of tier A. The first word is looked up on the PATH; programs and libraries that are not
    under ``/usr`` are not there in the sandbox, but for that word's own file.

    Attributes:
        run: Command line that answers one case: its input is there on standard input.
        build: Command line that makes it ready, once for each candidate; empty for none. If it
            fails, what it printed is the feedback.
    """

    run: Sequence[str]
    build: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, words in (("run", self.run), ("build", self.build)):
            if isinstance(words, str) or not all(isinstance(word, str) for word in words):
                raise TaskError(
                    f"command: {name} is {words!r}, a list of words is needed; there is no shell"
                )
        if not self.run:
            raise TaskError("command: run is empty, a command line is needed")
