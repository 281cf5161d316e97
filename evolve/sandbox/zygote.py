"""The worker process: imports once, then forks one child per candidate and watches over it.

It reads nothing that a candidate wrote. It enforces the CPU limit, kills on request, reaps the
candidate with everything it left behind, and reports how it ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from evolve.sandbox import child
from evolve.sandbox.confine import Confinement

#: Messages from the pool: run a program (with its channel and its print pipe); kill it now.
START, KILL = b"S", b"K"

_PR_SET_CHILD_SUBREAPER = 36
_SHORTEST_LOOK_S = 0.02
#: Threads beside those that a candidate starts: this process, the candidate's first, one to spare.
_AROUND = 3


def main(control_fd: int) -> None:
    """Serve a pool until it hangs up.

    Args:
        control_fd: A SEQPACKET socket; the first message is the set-up as JSON, see
            :class:`evolve.sandbox.worker.Worker`.
    """
    control = socket.socket(fileno=control_fd)
    setup = json.loads(control.recv(1 << 20))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if setup["cores"]:
        # A candidate inherits it and may not change it.
        os.sched_setaffinity(0, setup["cores"])
    # Children of a candidate that outlive it come to us, to be killed.
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        for name in setup["preload"]:
            importlib.import_module(name)
        if "numpy" in sys.modules:
            # numpy imports this part late, which would cost each candidate 20 ms. Programs that
            # draw from the global generator give the same answers in every worker.
            importlib.import_module("numpy.random").seed(0)
        runner = compile(setup["runner"], child.RUNNER, "exec")
    except Exception as error:  # noqa: BLE001 - told to the pool, which raises it
        control.send(json.dumps({"fault": f"{type(error).__name__}: {error}"}).encode())
        return
    try:
        confinement = Confinement(setup["layers"])
    except OSError as error:
        control.send(json.dumps({"refused": str(error)}).encode())
        return
    if setup["commands"]:
        importlib.import_module("evolve.sandbox.built")
    streams = child.text_streams()
    task = child.Task(runner, setup["limits"], confinement, streams, setup["commands"])
    gc.collect()
    control.send(b"{}")
    _serve(control, task, setup["layers"]["writable"])


def _serve(control: socket.socket, task: child.Task, own: list[str]) -> None:
    while True:
        message, fds, _, _ = socket.recv_fds(control, 16, 2)
        if not message:
            # Whatever the preloaded modules registered for the exit has no say.
            os._exit(0)
        if message != START:
            # A KILL that crossed the report of a candidate which had just ended.
            continue
        pid = os.fork()
        if pid == 0:
            try:
                child.main(fds[0], fds[1], task)
            except BaseException:  # noqa: BLE001 - the end of this process, shown to the pool
                traceback.print_exc()
            finally:
                os._exit(70)
        for fd in fds:
            os.close(fd)
        control.send(json.dumps(_watch(control, pid, task.limits)).encode())
        # After the report: a candidate whose leavings cannot be removed has its verdict all the
        # same, and the pool finds a worker that died in its sleep.
        if not all(_emptied(Path(folder)) for folder in own):
            # What one candidate leaves must not meet the next: a fresh worker has fresh folders.
            os._exit(0)


def _watch(control: socket.socket, pid: int, limits: dict[str, Any]) -> dict[str, Any]:
    """Wait for the candidate's end, or bring it about; return the report."""
    processes = limits["processes"]
    ended = os.pidfd_open(pid)
    cause = ""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(ended, select.POLLIN)
    clock = (~pid << 3) | 2  # the CPU clock of another process, see clock_getcpuclockid(3)
    cores = os.cpu_count() or 1
    while True:
        try:
            left = limits["cpu_s"] - time.clock_gettime(clock)
        except OSError:
            # It has ended; its clock went with it.
            break
        if left <= 0:
            cause = "cpu"
            break
        # The kernel holds nobody to the limit who is root outside.
        if processes and _threads() > processes + _AROUND:
            cause = "processes"
            break
        # It cannot burn more than one second a core and second.
        wait_s = _SHORTEST_LOOK_S if processes else max(left / cores, _SHORTEST_LOOK_S)
        ready = dict(poll.poll(1000 * wait_s))
        if ended in ready:
            break
        if control.fileno() in ready:
            if not control.recv(16):
                _kill_group(pid)
                os._exit(0)
            cause = "kill"
            break
    _kill_group(pid)
    os.close(ended)
    _, status, used = os.wait4(pid, 0)
    strays = _kill_strays()
    return {
        "cause": cause,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
        "cpu_s": used.ru_utime + used.ru_stime,
        "max_rss_kb": used.ru_maxrss,
        "strays": strays,
    }


def _emptied(folder: Path) -> bool:
    """Remove what a candidate left in a folder; return whether nothing is left."""
    try:
        for root, names, _ in os.walk(folder):
            for path in (Path(root, name) for name in names):
                # What a link names is not the candidate's.
                if not path.is_symlink():
                    path.chmod(0o700)
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        return not any(folder.iterdir())
    except (OSError, RecursionError):
        return False


def _threads() -> int:
    """Return the number of threads here, which are the candidate's and this one."""
    threads = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - many times a second
        if name.isdigit():
            with contextlib.suppress(OSError):  # it has just ended
                threads += os.stat(f"/proc/{name}/task").st_nlink - 2  # noqa: PTH116
    return threads


def _kill_group(pid: int) -> None:
    # The group does not exist until the child has called setsid.
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _kill_strays() -> int:
    """Kill and reap what the candidate left behind; return how many there were."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    strays = 0
    if os.getpid() == 1:
        # Everybody else here is the candidate's. At once, since a bomb forks faster than one who
        # looks for its pieces can kill them.
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                strays += 1
                continue
        except ChildProcessError:
            return strays
        for pid in children.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        os.waitpid(-1, 0)
        strays += 1
