"""The process of one candidate: forked from a worker, answers inputs, and is killed at the verdict.

It holds no answer, tolerance, clock or key: those never leave the judge. Whatever the candidate
patches in here can only change its own answers.
"""

from __future__ import annotations

import functools
import importlib.machinery
import os
import random
import resource
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TextIO

from evolve.sandbox import wire
from evolve.sandbox.confine import Confinement

#: File name of a candidate in tracebacks.
CANDIDATE = "<candidate>"
#: File name of the task's runner in tracebacks.
RUNNER = "run.py"
#: First byte of a program: its text follows, or its files by name.
TEXT, FILES = b"TF"
#: First byte of a reply, what follows being data or one line of text.
LOADED, OK, INVALID, EXCEPTION, SYNTAX, MEMORY, EXITED, TOO_LARGE, BROKEN_RUNNER = b"LOIXSMETR"
#: The same of a program that runs in processes of its own.
CPU, CRASHED = b"CK"

_CHANNEL = 3
_DETAIL_BYTES = 2000


@dataclass(frozen=True)
class Task:
    """What a worker knows of the task before any candidate comes.

    Attributes:
        runner: The task's ``run.py``, compiled.
        limits: The fields of :class:`evolve.task.Limits`.
        confinement: The rights to give up.
        streams: See :func:`text_streams`.
        commands: The fields of :class:`evolve.task.Command`, empty for Python.
    """

    runner: types.CodeType
    limits: dict[str, Any]
    confinement: Confinement
    streams: tuple[TextIO, TextIO]
    commands: dict[str, list[str]] = field(default_factory=dict)


class Ended(Exception):  # noqa: N818 - a verdict, not an error
    """A program cannot be built, or a process of its own ended as none should.

    Attributes:
        kind: First byte of the reply.
    """

    def __init__(self, kind: int, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def main(channel: int, printed: int, task: Task) -> NoReturn:
    """Become the candidate's process and serve it until the judge hangs up.

    Args:
        channel: Socket to the judge.
        printed: Write end of the pipe that takes what the candidate prints.
        task: What it is about.

    Raises:
        OSError: If the process cannot be confined; it must end then.
    """
    os.setsid()
    _redirect(channel, printed, task.streams)
    _set_limits(task.limits)
    task.confinement.enter()
    os.closerange(_CHANNEL + 1, os.sysconf("SC_OPEN_MAX"))
    _serve(task, int(task.limits["output_kb"] * 1024))
    os._exit(0)


def text_streams() -> tuple[TextIO, TextIO]:
    """Return what a candidate has as standard output and error.

    Made once in the worker, since to make them takes a tenth of the time of a small program. Line
    buffered: the last line before a kill is worth more than the cost of the flushes.
    """
    make = functools.partial(
        open, mode="w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    return make(1), make(2)


def _redirect(channel: int, printed: int, streams: tuple[TextIO, TextIO]) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.dup2(channel, _CHANNEL)
    sys.stdout, sys.stderr = streams


def _set_limits(limits: dict[str, Any]) -> None:
    # One second more than the worker grants: this line holds if the worker fails to look.
    cpu_s = int(limits["cpu_s"]) + 2
    memory = int(limits["memory_mb"] * 2**20)
    # Shared by all processes of the candidate's user, which in tier A is its alone.
    own = [(resource.RLIMIT_NPROC, limits["processes"] + 2)] if limits["processes"] else []
    for what, value in (
        *own,
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, limits["scratch_mb"] * 2**20),
        (resource.RLIMIT_NOFILE, 256 if limits["processes"] else 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        resource.setrlimit(what, (value, value))


def _serve(task: Task, max_bytes: int) -> None:
    request = _read_frame()
    if request is None:
        return
    nonce, program = request
    run = _load(task, program, max_bytes, nonce)
    if run is None:
        return
    _write(wire.frame(nonce, bytes([LOADED])))
    while (request := _read_frame()) is not None:
        nonce, payload = request
        _write(wire.frame(nonce, _answer(run, payload, max_bytes)))


def _load(
    given_task: Task, program: bytes, max_bytes: int, nonce: int
) -> Callable[[Any], Any] | None:
    """Return a function of one input, or None after reporting why there is none."""
    # The module seeds itself from the system at a fork; equal programs shall give equal answers.
    random.seed(0)
    # The runner's imports come first, so that the candidate cannot stand in for them.
    task: dict[str, Any] = {"__name__": "run", "__file__": RUNNER}
    try:
        exec(given_task.runner, task)
        run = task["run"]
    except BaseException as error:  # noqa: BLE001 - reported to the judge, whatever it is
        _write(wire.frame(nonce, bytes([BROKEN_RUNNER]) + _detail(error)))
        return None
    files: dict[str, Any] = {CANDIDATE: program[1:]}
    if program[0] == FILES:
        files = wire.decode(program[1:])
    try:
        if given_task.commands:
            from evolve.sandbox.built import build

            # The pool's empty program has no files: nothing is built then.
            loaded: Any = (
                build(files, given_task.commands, max_bytes) if program[0] == FILES else None
            )
        elif "load_program" in task:
            # This task does with the text of a program what it likes.
            loaded = task["load_program"](program[1:].decode("utf-8"))
        else:
            loaded = _imported(files)
    except BaseException as error:  # noqa: BLE001 - reported to the judge, whatever it is
        _write(wire.frame(nonce, _failure(error)))
        return None
    return lambda given: run(loaded, given)


def _imported(files: dict[str, Any]) -> types.ModuleType:
    """Return the first file of a program as a module; it can import the others by their names.

    Raises:
        BaseException: What a file raises; :class:`Ended` for one that does not compile.
    """
    codes = {}
    for name, text in files.items():
        try:
            codes[name] = compile(text, name, "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            raise Ended(SYNTAX, _syntax_detail(error, name)) from None
    _CANDIDATES.update(codes)
    name, code = next(iter(codes.items()))
    program = types.ModuleType("candidate")
    program.__file__ = name
    # dataclasses and pickles look the module of a class up.
    sys.modules["candidate"] = program
    if len(files) > 1:
        sys.modules[name.removesuffix(".py")] = program
        sys.meta_path.insert(0, _Files())
    exec(code, program.__dict__)
    return program


class _Files:
    """Finds and loads the files of the program, which are on no disk."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return what the import system needs to know of a module that is one of the files."""
        del path, target
        if f"{fullname}.py" not in _CANDIDATES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=f"{fullname}.py")  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Execute the file of a module."""
        exec(_CANDIDATES[f"{module.__name__}.py"], module.__dict__)


#: File name in tracebacks -> code, of the candidate's files.
_CANDIDATES: dict[str, types.CodeType] = {}


def _answer(run: Callable[[Any], Any], payload: bytes, max_bytes: int) -> bytes:
    try:
        output = run(wire.decode(payload))
    except BaseException as error:  # noqa: BLE001 - reported to the judge, whatever it is
        return _failure(error)
    try:
        data = wire.encode(output)
    except BaseException as error:  # noqa: BLE001 - a hostile object may raise anything
        if isinstance(error, MemoryError):
            return _failure(error)
        return bytes([INVALID]) + _text(error)
    if len(data) > max_bytes:
        return bytes([TOO_LARGE]) + f"the answer takes {len(data)} bytes".encode()
    return bytes([OK]) + data


def _failure(error: BaseException) -> bytes:
    if isinstance(error, Ended):
        return bytes([error.kind]) + _text(error)
    if isinstance(error, SystemExit):
        return bytes([EXITED]) + _detail(error)
    if isinstance(error, MemoryError):
        return bytes([MEMORY]) + _detail(error)
    return bytes([EXCEPTION]) + _detail(error)


def _detail(error: BaseException) -> bytes:
    """Return "line N: Type: message", N being the innermost line of the candidate."""
    candidate, runner = "", 0
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in _CANDIDATES:
            candidate = f"{_shown(name)}line {trace.tb_lineno}: "
        elif name == RUNNER:
            runner = trace.tb_lineno
        trace = trace.tb_next
    where = candidate or (f"{RUNNER} line {runner}: " if runner else "")
    return where.encode() + type(error).__name__.encode("utf-8", "replace") + b": " + _text(error)


def _syntax_detail(error: BaseException, name: str) -> str:
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{_shown(name)}line {error.lineno or 1}: {kind}: {error.msg}"
    return f"{_shown(name)}{kind}: {error}"


def _shown(name: str) -> str:
    return "" if name == CANDIDATE else f"{name} "


def _text(error: BaseException) -> bytes:
    try:
        return str(error)[:_DETAIL_BYTES].encode("utf-8", "replace")
    except BaseException:  # noqa: BLE001 - __str__ is the candidate's
        return b"(its message cannot be shown)"


def _read_frame() -> tuple[int, bytes] | None:
    header = _read(wire.HEADER.size)
    if header is None:
        return None
    size, nonce = wire.HEADER.unpack(header)
    payload = _read(size)
    return None if payload is None else (nonce, payload)


def _read(size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(_CHANNEL, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(_CHANNEL, view) :]
