"""One worker of the pool, as seen from the judge's side: start it, hand it programs, kill it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolve.errors import SandboxError, TaskError
from evolve.sandbox.text import clean
from evolve.task import Command, Limits

#: Seconds for importing what a task preloads.
START_S = 120.0
#: Second deadline: seconds that a worker may take to report the end of a candidate.
REPORT_S = 5.0
_FAREWELL_S = 2.0

# The worker sees the sandbox's own modules and nothing else of this package: no task, no judge.
_BOOT = """
import sys, types
for name, path in (("evolve", []), ("evolve.sandbox", [sys.argv[1]])):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = path
from evolve.sandbox.zygote import main
main(int(sys.argv[2]))
"""

# Two processes with two BLAS threads each slow each other down by far more than they gain.
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUTF8": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Profile:
    """What every worker of a pool is started with.

    Attributes:
        runner: Source of the task's ``run.py``.
        preload: Modules imported before candidates are forked.
        limits: What one candidate may use.
        tier: Strength of the isolation, see :mod:`evolve.sandbox.tiers`.
        cores: Processors that candidates may run on, empty for all.
        command: How programs are built and run, None for Python.
    """

    runner: str
    preload: tuple[str, ...]
    limits: Limits
    tier: str
    cores: tuple[int, ...] = ()
    command: Command | None = None


@dataclass(frozen=True)
class Report:
    """How a candidate's process ended, from the worker that watched it."""

    cause: str
    signal: int
    code: int
    cpu_s: float
    max_rss_kb: int
    strays: int


class WorkerLost(Exception):  # noqa: N818 - an event that the pool handles, not a user's error
    """The worker died or does not answer any more."""


class StartError(SandboxError):
    """The process did not come up; another may."""


class Worker:
    """A worker process. Used by one thread at a time."""

    def __init__(self, index: int, profile: Profile) -> None:
        """Start the process; :meth:`wait_ready` tells when it can be used."""
        # Imported late: finding the best tier takes workers.
        from evolve.sandbox import tiers

        self.index = index
        commands, tools = tiers.tools_of(profile.command)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._started = time.monotonic()
        setup = {
            "runner": profile.runner,
            "preload": list(profile.preload),
            "limits": dataclasses.asdict(profile.limits),
            "layers": tiers.layers(profile.tier, index, profile.limits, tools),
            "cores": list(profile.cores),
            "commands": commands,
        }
        with theirs:
            # -P: the current folder is no place to import from; -s: nor is the user's home.
            here, control = str(Path(__file__).parent), str(theirs.fileno())
            python = [sys.executable, "-s", "-P", "-c", _BOOT, here, control]
            self.process = subprocess.Popen(
                tiers.command(profile.tier, python, profile.limits.scratch_mb, tools),
                env=dict(_ENVIRONMENT),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                cwd="/",
                # Ctrl-C in the terminal is for the campaign, not for its workers.
                start_new_session=True,
            )
        # A process that is gone already shows when it is waited for.
        with contextlib.suppress(OSError):
            self.control.sendall(json.dumps(setup).encode())

    def wait_ready(self) -> None:
        """Wait until the preloaded modules are in.

        Raises:
            TaskError: If a module to preload is missing or the runner does not compile.
            StartError: If the process does not come up.
            SandboxError: If its isolation is refused.
        """
        try:
            message = self._receive(self._started + START_S)
        except WorkerLost as lost:
            raise StartError(f"a sandbox worker does not start ({lost}): {self.log()}") from None
        if refused := message.get("refused"):
            raise SandboxError(f"the isolation cannot be set up: {clean(refused, 300)}")
        if fault := message.get("fault"):
            raise TaskError(
                f"the sandbox cannot preload what the task asks for: {clean(fault, 300)}"
            )

    def start(self, channel: int, printed: int) -> None:
        """Fork a candidate's process, with its ends of the two descriptors.

        Raises:
            WorkerLost: If the worker is gone.
        """
        try:
            socket.send_fds(self.control, [b"S"], [channel, printed])
        except OSError as error:
            raise WorkerLost(error.strerror) from None

    def end(self) -> None:
        """Ask the worker to kill the candidate now; :meth:`report` follows."""
        try:
            self.control.send(b"K")
        except OSError:
            # Its death shows when the report is asked for.
            return

    def report(self, deadline: float) -> Report:
        """Return how the candidate ended.

        Args:
            deadline: On the monotonic clock.

        Raises:
            WorkerLost: If no report comes in time.
        """
        return Report(**self._receive(deadline))

    def _receive(self, deadline: float) -> dict[str, Any]:
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise WorkerLost("no answer in time")
        try:
            message = self.control.recv(1 << 16)
        except OSError as error:
            raise WorkerLost(error.strerror) from None
        if not message:
            raise WorkerLost("it ended")
        fields: dict[str, Any] = json.loads(message)
        return fields

    def log(self) -> str:
        """Return the end of what the process itself printed, one line."""
        self._log.seek(0)
        return (
            clean(self._log.read()[-2000:].decode("utf-8", "replace"), 500) or "it printed nothing"
        )

    def kill(self) -> None:
        """End the process and its children, and free what it held."""
        # It ends by itself when the other end closes. Left to do so, it takes the processes around
        # it along in order, and none of them stays behind as a zombie.
        self.control.close()
        try:
            self.process.wait(_FAREWELL_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._log.close()
