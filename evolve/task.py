"""The task contract: what a researcher declares, and nothing that runs it.

A task is a folder of three files. ``initial.py`` is the starting program, ``run.py`` drives a
candidate and goes into the sandbox with it, ``task.py`` declares the ``TASK`` below and judges. The
judge and everything it knows stay outside: of a case only :attr:`Case.given` crosses the line.
A program may also have several files (:attr:`Task.files`) and be in any language
(:attr:`Task.command`).
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from evolve.axes import IDENTIFIER, BelowFloor, Descriptor, Invalid, Objective, Scores
from evolve.errors import TaskError
from evolve.files import NAME, files_of, is_python, join_files
from evolve.program import ProgramError, parse_source, split_blocks, syntax_place
from evolve.running import COMMAND_RUNNER, SPEEDUP, Command, Limits, Timing

__all__ = [
    "SPEEDUP",
    "BelowFloor",
    "Case",
    "Command",
    "Descriptor",
    "Invalid",
    "Limits",
    "Objective",
    "Scores",
    "Stage",
    "Task",
    "Timing",
    "files_of",
    "load_task",
    "task_folders",
]

#: The program of a task that names no files.
INITIAL = ("initial.py",)
#: What a candidate of a command task may use of these where the task asks for none.
_PROCESSES, _SCRATCH_MB = 32, 64


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
        files: Names of the program's files in the folder; the first is what ``run`` gets, and
            Python files import each other by name. Blocks may be in any of them. In a language
            other than Python a block's markers stand after the sign of a comment there.
        command: How programs are built and run; None for Python, imported. ``run`` then gets a
            function: ``program(text, *arguments)`` runs the command once and returns ``exit``,
            ``stdout`` and the end of ``stderr`` in a dict. Without a ``run.py`` a case's ``given``
            is that text, and the dict is the output. 64 MiB of scratch and 32 processes if
            ``limits`` say nothing of them.
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
    limits: Limits = field(default_factory=Limits)
    files: Sequence[str] = INITIAL
    command: Command | None = None
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
        _check_files(self)
        if self.command is not None:
            limits = replace(
                self.limits,
                processes=self.limits.processes or _PROCESSES,
                scratch_mb=self.limits.scratch_mb or _SCRATCH_MB,
            )
            object.__setattr__(self, "limits", limits)

    @property
    def k(self) -> int:
        """Number of reward dimensions."""
        return len(self.objectives)

    @property
    def start(self) -> Path:
        """The file with which the starting program begins, for messages."""
        return self.folder / self.files[0]

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
    return replace(
        task,
        name=folder.name,
        folder=folder,
        initial=_read_program(task, folder),
        runner=_read_runner(task, folder),
    )


def _read_program(task: Task, folder: Path) -> str:
    texts = [(name, _read(folder / name)) for name in task.files]
    plain = tuple(task.files) == INITIAL and task.command is None
    try:
        initial = texts[0][1] if plain else join_files(texts)
        split_blocks(initial)
        if is_python(initial):
            parse_source(initial)
    except SyntaxError as error:
        raise TaskError(
            f"{folder / 'initial.py' if plain else folder}: {syntax_place(error)}{error.msg}"
        ) from None
    except (ProgramError, ValueError) as error:
        raise TaskError(f"{folder / 'initial.py' if plain else folder}: {error}") from None
    return initial


def _read_runner(task: Task, folder: Path) -> str:
    if task.command is not None and not (folder / "run.py").exists():
        for case in task.cases:
            if not isinstance(case.given, str):
                raise TaskError(
                    f"{folder / 'task.py'}: case {case.name!r}: given is of type "
                    f"{type(case.given).__name__}; without a run.py it is the text that the "
                    "program reads"
                )
        return COMMAND_RUNNER
    runner = _read(folder / "run.py")
    if not re.search(r"^def run\(", runner, re.MULTILINE):
        raise TaskError(f"{folder / 'run.py'}: no function run(program, given) is defined")
    return runner


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


def _check_files(task: Task) -> None:
    names = task.files
    if isinstance(names, str) or not names:
        raise TaskError(f"files is {names!r}, a list of one file name or more is needed")
    _check_unique("file", list(names))
    taken = sys.stdlib_module_names.union(task.preload, ("candidate", "run", "task"))
    for name in names:
        if not NAME.match(name):
            raise TaskError(f"file name {name!r}: letters, digits, '_', '-' and '.' are allowed")
        if task.command is not None:
            continue
        stem = name.removesuffix(".py")
        if stem == name:
            raise TaskError(f"file {name!r} is no Python: a command=Command(...) must run it")
        if not IDENTIFIER.match(stem) or stem in taken:
            raise TaskError(f"file name {name!r}: {stem} cannot name a module of a program")
    plain = tuple(names) == INITIAL and task.command is None
    if task.timing is not None and task.timing.reference and not plain:
        raise TaskError("timing: a reference of one Python file cannot stand beside these programs")
