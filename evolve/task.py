"""The task contract: what a researcher declares, and nothing that runs it.

A task is a folder of three files. ``initial.py`` is the starting program, ``run.py`` drives a
candidate and goes into the sandbox with it, ``task.py`` declares the ``TASK`` below and judges. The
judge and everything it knows stay outside: of a case only :attr:`Case.given` crosses the line.
"""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from evolve.errors import TaskError
from evolve.program import ProgramError, parse_source, split_blocks

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

#: What a judge returns: objective and descriptor names with their raw values.
Scores = Mapping[str, float]


class Invalid(ValueError):  # noqa: N818 - reads as a verdict: raise Invalid("two circles overlap")
    """Raised by a judge to refuse an output; the message becomes feedback for the next prompt."""


class BelowFloor(Invalid):
    """Raised by a judge that works out a stage's threshold itself."""


@dataclass(frozen=True)
class Objective:
    """One reward dimension, with the range that maps its raw value to [0, 1].

    Attributes:
        name: Identifier, unique in the task.
        low: Lower end of the range, in the raw unit.
        high: Upper end; values outside the range are clipped.
        direction: ``"max"`` if larger raw values are better, ``"min"`` if smaller ones are.
        unit: Unit of the raw value, for labels.
        bound: Raw value that nothing can surpass, by proof or by physics. A program whose result
            lies beyond it has found a fault of the judge: it is quarantined, neither archived nor
            rewarded. None for none.
    """

    name: str
    low: float
    high: float
    direction: Literal["max", "min"] = "max"
    unit: str = ""
    bound: float | None = None

    def __post_init__(self) -> None:
        _check_axis("objective", self.name, self.low, self.high)
        if self.direction not in ("max", "min"):
            raise TaskError(
                f"objective {self.name!r}: direction is {self.direction!r}, allowed: 'max', 'min'"
            )
        best = self.high if self.direction == "max" else self.low
        if self.bound is not None and (not math.isfinite(self.bound) or self.beyond(best)):
            raise TaskError(
                f"objective {self.name!r}: bound is {self.bound}, which the best end of the range, "
                f"{best}, surpasses"
            )

    def beyond(self, value: float) -> bool:
        """Return whether a raw value is better than anything can be."""
        if self.bound is None:
            return False
        return value > self.bound if self.direction == "max" else value < self.bound

    def reward(self, value: float) -> float:
        """Return ``value`` mapped to [0, 1], 1 being best.

        Raises:
            Invalid: If the value is NaN or infinite.
        """
        if not math.isfinite(value):
            raise Invalid(f"objective {self.name!r} is {value}, a finite number is needed")
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return share if self.direction == "max" else 1.0 - share


@dataclass(frozen=True)
class Descriptor:
    """One behaviour axis of the archive.

    A name of :data:`evolve.descriptors.BUILTIN` is measured for you; any other name must be
    among the values that the judge returns.

    Attributes:
        name: Identifier, unique in the task.
        low: Lower bound, fixed for the whole run; values outside fall into the edge cell.
        high: Upper bound.
        bins: Number of grid cells along this axis.
        unit: Unit, for labels.
    """

    name: str
    low: float
    high: float
    bins: int = 10
    unit: str = ""

    def __post_init__(self) -> None:
        _check_axis("descriptor", self.name, self.low, self.high)
        if self.bins < 1:
            raise TaskError(f"descriptor {self.name!r}: bins is {self.bins}, at least 1 is needed")


@dataclass(frozen=True)
class Case:
    """One input of a task.

    Attributes:
        name: Identifier, unique in the task.
        given: Plain data handed to ``run``; it crosses into the sandbox.
        hidden: What only the judge may know (answers, tolerances, seeds).
    """

    name: str
    given: Any
    hidden: Any = None


@dataclass(frozen=True)
class Stage:
    """A step of the evaluation; a candidate that fails one goes no further.

    Attributes:
        name: Identifier, unique in the task.
        cases: Names of the cases run in this stage, in order.
        floors: Objective name -> reward in [0, 1] that the candidate must reach in this stage.
    """

    name: str
    cases: tuple[str, ...]
    floors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """What one candidate may use. Exceeding any is a scored failure, never an error.

    Attributes:
        wall_s: Wall-clock seconds for one case.
        cpu_s: CPU seconds for the candidate, all cases together.
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
class Task:
    """A search problem.

    A reward is the mean over the cases that report the objective; so either every case reports
    the same qualities, or each case (or family of cases) reports an objective of its own.

    Attributes:
        summary: One or two sentences for the prompt and for lists.
        objectives: The reward dimensions, k of them, usually 3 to 16.
        descriptors: The behaviour axes of the archive.
        cases: The inputs.
        score: ``score(output, case) -> {name: raw value}``; raises :class:`Invalid` to refuse.
        inspect: ``inspect(source) -> {name: raw value}``: measures the text of the program
            without running it.
        remark: ``remark(output, case) -> text`` on a valid answer, shown in prompts that show the
            program; the candidate may have written it, so it is cut and cleaned.
        self_judged: Whether the judge runs beside the candidate, so that its figures are only as
            good as the candidate is honest. Runs say so.
        stages: Cheap checks first; by default one stage with every case.
        limits: What a candidate may use.
        preload: Modules that the sandbox imports once, before candidates are forked from it.
        timing: How the speed of programs is measured, None if it does not matter.
        best_known: Objective name -> (best known raw value, its source).
        name: Set by :func:`load_task`: the folder's name.
        folder: Set by :func:`load_task`.
        initial: Set by :func:`load_task`: source of the starting program.
        runner: Set by :func:`load_task`: source of ``run.py``, which defines
            ``run(program, given) -> output``.
    """

    summary: str
    objectives: Sequence[Objective]
    descriptors: Sequence[Descriptor]
    cases: Sequence[Case]
    score: Callable[[Any, Case], Scores]
    inspect: Callable[[str], Scores] | None = None
    remark: Callable[[Any, Case], str] | None = None
    self_judged: bool = False
    stages: Sequence[Stage] = ()
    limits: Limits = Limits()
    preload: Sequence[str] = ("numpy",)
    timing: Timing | None = None
    best_known: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    name: str = ""
    folder: Path = Path()
    initial: str = ""
    runner: str = ""

    def __post_init__(self) -> None:
        if not self.objectives:
            raise TaskError("objectives is empty: a task needs at least one reward")
        if not self.descriptors:
            raise TaskError("descriptors is empty: the archive needs at least one axis")
        if not self.cases:
            raise TaskError("cases is empty: a task needs at least one input")
        _check_unique("objective", [o.name for o in self.objectives])
        _check_unique("descriptor", [d.name for d in self.descriptors])
        _check_unique("case", [c.name for c in self.cases])
        if not self.stages:
            whole = Stage("all", tuple(case.name for case in self.cases))
            object.__setattr__(self, "stages", (whole,))
        _check_stages(self)
        if self.timing is not None:
            _check_timing(self, self.timing)

    @property
    def k(self) -> int:
        """Number of reward dimensions."""
        return len(self.objectives)

    def case(self, name: str) -> Case:
        """Return the case called ``name``."""
        return next(case for case in self.cases if case.name == name)


def task_folders() -> dict[str, Path]:
    """Return the tasks that ship with the toolkit, name -> folder, sorted by name."""
    spec = importlib.util.find_spec("tasks")
    roots = [] if spec is None else list(spec.submodule_search_locations or [])
    found = (file.parent for root in roots for file in Path(root).glob("*/task.py"))
    return {folder.name: folder for folder in sorted(found)}


def load_task(name_or_path: str | Path) -> Task:
    """Return the task in a folder, or the shipped one of that name.

    Raises:
        TaskError: If there is no such task or its files do not declare one; the message names the
            file and what it needs.
    """
    folder = _find_folder(str(name_or_path))
    module = _import_file(folder / "task.py")
    task = getattr(module, "TASK", None)
    if not isinstance(task, Task):
        raise TaskError(f"{folder / 'task.py'}: no TASK = Task(...) is defined")
    initial, runner = _read(folder / "initial.py"), _read(folder / "run.py")
    try:
        split_blocks(initial)
        parse_source(initial)
    except (ProgramError, SyntaxError) as error:
        raise TaskError(f"{folder / 'initial.py'}: {error}") from None
    if not re.search(r"^def run\(", runner, re.MULTILINE):
        raise TaskError(f"{folder / 'run.py'}: no function run(program, given) is defined")
    return replace(task, name=folder.name, folder=folder, initial=initial, runner=runner)


def _find_folder(name_or_path: str) -> Path:
    shipped = task_folders()
    if name_or_path in shipped:
        return shipped[name_or_path]
    folder = Path(name_or_path).resolve()
    if not (folder / "task.py").is_file():
        names = ", ".join(shipped) or "none"
        raise TaskError(
            f"unknown task {name_or_path!r}: no folder with a task.py there; shipped tasks: {names}"
        )
    return folder


def _import_file(path: Path) -> ModuleType:
    # A private name, so that two folders may both be called "mine" and neither shadows a package.
    name = f"_evolve_task_{path.parent.name}_{abs(hash(path)):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TaskError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    # dataclasses in the task's file look their own module up.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except TaskError as error:
        raise TaskError(f"{path}: {error}") from error
    except Exception as error:
        del sys.modules[name]
        where = _line_in(error, path)
        raise TaskError(f"{path}{where}: {type(error).__name__}: {error}") from error
    return module


def _line_in(error: Exception, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f", line {error.lineno}"
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TaskError(f"{path}: missing, a task folder needs it") from None
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: not UTF-8 text ({error.reason})") from None


def _check_axis(kind: str, name: str, low: float, high: float) -> None:
    if not _NAME.match(name):
        raise TaskError(f"{kind} name {name!r}: letters, digits and '_' are allowed")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise TaskError(f"{kind} {name!r}: low={low}, high={high}; finite low < high is needed")


def _check_unique(kind: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise TaskError(f"{kind} name {name!r} is used twice")


def _check_stages(task: Task) -> None:
    cases = [case.name for case in task.cases]
    objectives = [objective.name for objective in task.objectives]
    _check_unique("stage", [stage.name for stage in task.stages])
    for stage in task.stages:
        for name in stage.cases:
            if name not in cases:
                raise TaskError(f"stage {stage.name!r}: no case {name!r}; cases: {cases}")
        for name in stage.floors:
            if name not in objectives:
                raise TaskError(
                    f"stage {stage.name!r}: no objective {name!r}; objectives: {objectives}"
                )
    run = [name for stage in task.stages for name in stage.cases]
    _check_unique("stage case", run)
    if missing := sorted(set(cases) - set(run)):
        raise TaskError(f"cases {missing} are in no stage")


def _check_timing(task: Task, timing: Timing) -> None:
    measured = [objective for objective in task.objectives if objective.name == SPEEDUP]
    if not measured or measured[0].bound is None:
        raise TaskError(
            f"timing: an objective {SPEEDUP!r} with a bound is needed, the speed-up beyond which "
            "no program can be honest"
        )
    names = [case.name for case in task.cases]
    for name in timing.cases:
        if name not in names:
            raise TaskError(f"timing: no case {name!r}; cases: {names}")
