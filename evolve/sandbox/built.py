"""Programs that commands of the task build and run, in any language.

Lives in the process of one candidate, in tier A, and trusts nothing that the program does: what it
prints is bounded text, how it ends is a number. Not covered: keeping one input from the next; what
a program leaves in its folder or running stays until the verdict, and is its own.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from evolve.sandbox.child import CPU, CRASHED, SYNTAX, TOO_LARGE, Ended

#: The folder with the program's files.
FOLDER = "/scratch/program"
_ENVIRONMENT = {"HOME": "/scratch", "TMPDIR": "/scratch"}
#: Bytes of an error text that are kept.
_MESSAGE = 2000


@dataclass(frozen=True)
class Built:
    """A program that is ready; what a task's ``run`` gets."""

    command: tuple[str, ...]
    max_bytes: int

    def __call__(self, text: str = "", *arguments: str) -> dict[str, Any]:
        """Run the program once.

        Args:
            text: What it finds on standard input.
            arguments: Further words of the command line.

        Returns:
            ``exit``, its exit status; ``stdout``; ``stderr``, the end of it.

        Raises:
            Ended: If a signal ended it or it printed more than an answer may hold.
        """
        status, out, err = _run((*self.command, *arguments), text, self.max_bytes)
        return {
            "exit": status,
            "stdout": out.decode("utf-8", "replace"),
            "stderr": err[-_MESSAGE:].decode("utf-8", "replace"),
        }


def build(files: Mapping[str, str], commands: Mapping[str, Sequence[str]], max_bytes: int) -> Built:
    """Write a program's files and build it.

    Args:
        files: Name -> content.
        commands: The fields of :class:`evolve.task.Command`.
        max_bytes: That one run may print.

    Raises:
        Ended: If it cannot be built, with what the command printed.
    """
    Path(FOLDER).mkdir()
    os.chdir(FOLDER)
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    if commands["build"]:
        status, out, err = _run(commands["build"], "", max_bytes)
        if status:
            # Compilers say first what is wrong first.
            said = (err + out)[:_MESSAGE].decode("utf-8", "replace").strip()
            raise Ended(SYNTAX, said or f"{commands['build'][0]} ended with exit status {status}")
    return Built(tuple(commands["run"]), max_bytes)


def _run(command: Sequence[str], text: str, max_bytes: int) -> tuple[int, bytes, bytes]:
    with (
        tempfile.TemporaryFile(dir="/scratch") as stdin,
        tempfile.TemporaryFile(dir="/scratch") as stderr,
    ):
        stdin.write(text.encode("utf-8", "surrogatepass"))
        stdin.seek(0)
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, **_ENVIRONMENT},
            # A group of its own, so that what it leaves running can be ended with it.
            start_new_session=True,
        )
        assert process.stdout is not None
        with process.stdout:
            out = process.stdout.read(max_bytes + 1)
        too_much = len(out) > max_bytes
        if too_much:
            process.kill()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if too_much:
            raise Ended(TOO_LARGE, f"it printed more than {max_bytes} bytes")
        if code < 0:
            _died(-code, used.ru_utime + used.ru_stime)
        stderr.seek(0)
        return code, out, stderr.read(1 << 16) if code else stderr.read(_MESSAGE)


def _died(number: int, cpu_s: float) -> NoReturn:
    most = resource.getrlimit(resource.RLIMIT_CPU)[0]
    if number in (signal.SIGXCPU, signal.SIGKILL) and cpu_s > most - 1:
        raise Ended(CPU, f"it used {cpu_s:.2f} CPU seconds")
    raise Ended(CRASHED, f"it died of signal {number} ({signal.Signals(number).name})")
