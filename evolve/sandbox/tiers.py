"""The four strengths of isolation: what each is made of, and finding the best one by trying.

====  =============================================================================
tier  made of
====  =============================================================================
A     namespaces (bubblewrap: own mounts, processes, network, users), and all of B
B     Landlock (a short list of readable paths, none writable), and all of C
C     a system-call filter; if root, another user without capabilities
D     resource limits, killing of stray processes; if root, no capabilities
====  =============================================================================

A tier counts only if a worker started with it really refuses what it should: a kernel, a container
or a security module may forbid a part, whatever is installed.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolve.errors import EvolveError, SandboxError, TaskError
from evolve.sandbox import wire
from evolve.sandbox.confine import landlock_version
from evolve.sandbox.outcome import Status
from evolve.sandbox.session import Session
from evolve.sandbox.syscalls import supported
from evolve.sandbox.text import clean
from evolve.sandbox.worker import Profile, Worker
from evolve.task import Command, Limits

#: The folder of a candidate that may write files.
SCRATCH = "/scratch"
#: All that it may write into; the second is where locks between processes live.
OWN_FOLDERS = (SCRATCH, "/dev/shm")
#: Strongest first.
TIERS = ("A", "B", "C", "D")

#: What candidates can do in each tier, in words for whoever starts a run: "they ...".
MEANING = {
    "A": "see no file but Python's, no process and no network of this machine",
    "B": "read no file but Python's, write none, reach no process and no network",
    "C": "can READ AND WRITE EVERY FILE that your user may; they reach no process and no network",
    "D": "can do ALL THAT YOUR USER CAN: read keys, write files, use the network",
}

# Users of this range are set aside for short-lived services (systemd's DynamicUser); one a worker,
# so that candidates of two workers, or of two campaigns, have nothing in common.
_FIRST_UID, _UIDS = 61184, 4336
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
# What a task's commands may need: compilers, their headers, what they call.
_PROGRAMS = ("/usr", "/bin")
# Debian finds its BLAS through alternatives.
_SYSTEM = ("/etc/ld.so.cache", "/etc/alternatives", "/usr/share/zoneinfo")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

# Each deed is harmless where it succeeds. It returns what succeeded.
_PROBE = """
import os, socket
def read(path): open(path).read()
def see(path): os.stat(path)
def write(path): os.close(os.open(path + ".new", os.O_CREAT | os.O_WRONLY))
def connect(_): socket.socket().close()
def signal(_): os.kill(os.getppid(), 0)
def fork(_):
    if os.fork() == 0:
        os._exit(0)
def probe(path):
    import fractions
    done = []
    for deed in (read, see, write, connect, signal, fork):
        try:
            deed(path)
        except OSError:
            continue
        done.append(deed.__name__)
    return done
"""
_RUNNER = "def run(program, given):\n    return program.probe(given)\n"
_REFUSED = {
    "A": {"read", "see", "write", "connect", "signal", "fork"},
    "B": {"read", "write", "connect", "signal", "fork"},
    "C": {"connect", "signal", "fork"},
    "D": set[str](),
}


@dataclass(frozen=True)
class Probe:
    """Whether this machine gives a tier, and if not, why."""

    tier: str
    works: bool
    reason: str


@functools.cache
def probe(tier: str) -> Probe:
    """Start a worker at ``tier``, have it try what it must not, and tell. Remembered."""
    if reason := _missing(tier):
        return Probe(tier, False, reason)
    with tempfile.TemporaryDirectory(prefix="evolve-probe-") as folder:
        canary = Path(folder) / "canary"
        canary.write_text("a file outside")
        # Only the tier may stand in the way, not the mode of the file.
        Path(folder).chmod(0o777)
        limits = Limits(wall_s=20.0, cpu_s=10.0, memory_mb=1024, output_kb=64)
        worker = None
        try:
            worker = Worker(0, Profile(_RUNNER, (), limits, tier))
            worker.wait_ready()
            with Session(worker, _PROBE, limits, wire.encode, lambda *_: None) as session:
                reply = session.call(str(canary))
                printed = clean(session.close().stderr_tail[-200:], 200)
        except EvolveError as error:
            return Probe(tier, False, str(error))
        finally:
            if worker is not None:
                worker.kill()
    if reply.status != Status.OK:
        return Probe(
            tier, False, f"a program ends there with {reply.status}: {reply.detail} {printed}"
        )
    if leaks := sorted(_REFUSED[tier].intersection(reply.output)):
        return Probe(tier, False, f"a program could {', '.join(leaks)} there")
    return Probe(tier, True, "")


def choose(min_tier: str) -> str:
    """Return the strongest tier that this machine gives.

    Raises:
        SandboxError: If it is weaker than ``min_tier``; the message says what would mend it.
    """
    accepted = TIERS[: TIERS.index(min_tier) + 1]
    reasons = []
    for tier in accepted:
        found = probe(tier)
        if found.works:
            return tier
        reasons.append(f"tier {tier}: {found.reason}")
    unsafe = "To run model-written code unprotected all the same: --allow-unsafe"
    raise SandboxError(
        f"this machine does not isolate candidates well enough ({'; '.join(reasons)}). To mend it: "
        "install bubblewrap (apt-get install bubblewrap), or use a Linux kernel from 5.13 on with "
        f"Landlock. {'' if 'D' in accepted else unsafe}".rstrip()
    )


def tools_of(command: Command | None) -> tuple[dict[str, list[str]], list[str]]:
    """Return a task's command lines as they work in the sandbox, and the paths that they need.

    Raises:
        TaskError: If a program is not installed here.
    """
    if command is None:
        return {}, []
    lines, paths = {}, _existing([*_PROGRAMS])
    for name, words in (("build", command.build), ("run", command.run)):
        lines[name] = list(words)
        if not words or words[0].startswith("./"):
            continue
        found = shutil.which(words[0])
        if found is None:
            raise TaskError(f"command: {name}: no program {words[0]!r} is installed here")
        if not any(Path(found).is_relative_to(path) for path in paths):
            paths.append(found)
        lines[name][0] = found
    return lines, paths


def layers(
    tier: str, index: int, limits: Limits | None = None, tools: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what :class:`evolve.sandbox.confine.Confinement` needs for worker ``index``.

    Args:
        tier: The tier.
        index: Of the worker.
        limits: What a candidate may use.
        tools: See :func:`tools_of`.
    """
    readable, listable = _readable(tuple(tools))
    limits = limits or Limits()
    if limits.processes:
        # What it starts is most likely this interpreter.
        readable = (*readable, str(Path(sys.executable).resolve()))
    return {
        "landlock": tier in "AB",
        "seccomp": tier in "ABC",
        "uid": _FIRST_UID + (61 * os.getpid() + index) % _UIDS if tier in "BC" else None,
        "readable": readable,
        "listable": listable,
        "writable": OWN_FOLDERS if limits.scratch_mb else (),
        "processes": limits.processes > 0,
        "runnable": bool(tools),
    }


def command(
    tier: str, python: list[str], scratch_mb: int = 0, tools: Sequence[str] = ()
) -> list[str]:
    """Return the command line that starts the command line ``python`` in a tier's namespaces.

    Args:
        tier: The tier.
        python: The command line.
        scratch_mb: Size of each of :data:`OWN_FOLDERS`, MiB; 0 for none.
        tools: See :func:`tools_of`.
    """
    if tier != "A":
        return python
    bwrap = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    # As process 1: the intermediate one would stay behind as a zombie.
    bwrap += ["--as-pid-1", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox"]
    roots = _existing([*tools, *_LIBRARIES, *_SYSTEM, *_interpreter()])
    for path in roots:
        bwrap += ["--ro-bind", path, path]
    for folder in _hidden():
        if any(folder.is_relative_to(root) for root in roots):
            bwrap += ["--tmpfs", str(folder)]
    here = str(Path(__file__).parent)
    bwrap += ["--ro-bind", here, here, "--proc", "/proc", "--dev", "/dev"]
    if scratch_mb:
        for path in OWN_FOLDERS:
            bwrap += ["--size", str(scratch_mb * 2**20), "--tmpfs", path]
        if not any(path.startswith("/tmp/") for path in (*roots, here)):
            bwrap += ["--symlink", SCRATCH, "/tmp"]
    executable = Path(python[0])
    while executable.is_symlink() and not _within(executable, roots):
        target = executable.readlink()
        bwrap += ["--symlink", str(target), str(executable)]
        executable = executable.parent / target
    if not _within(executable, roots):
        bwrap += ["--ro-bind", str(executable), str(executable)]
    return [*bwrap, "--remount-ro", "/", "--chdir", "/", "--", *python]


def _missing(tier: str) -> str:
    if sys.platform != "linux":
        return "it needs Linux"
    if tier == "D":
        return ""
    if not supported():
        return f"no table of system calls for {os.uname().machine}"
    if tier in "AB" and landlock_version() == 0:
        return "the kernel has no Landlock, or it is switched off"
    if tier == "A" and shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    return ""


def _interpreter() -> list[str]:
    """Return the folders and files of the interpreter and of its environment."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    paths += [str(sysconfig.get_config_var("DESTSHARED")), str(Path(sys.prefix) / "pyvenv.cfg")]
    # libpython, where the interpreter is a shared library.
    paths += [str(path) for path in Path(sys.base_prefix, "lib").glob("libpython*")]
    return paths


def _hidden() -> list[Path]:
    """Return the folders of this package and of its neighbours: judges are found there."""
    found = []
    for name in ("evolve", "vpo", "tasks"):
        spec = importlib.util.find_spec(name)
        found += [] if spec is None else list(spec.submodule_search_locations or [])
    return [Path(path) for path in found]


@functools.cache
def _readable(tools: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (paths whose content may be read, folders whose names alone may be listed)."""
    readable: list[str] = []
    listable: list[str] = []
    hidden = [path.resolve() for path in _hidden()]

    def expose(path: Path) -> None:
        real = path.resolve()
        if real in hidden:
            return
        if path.is_dir() and any(folder.is_relative_to(real) for folder in hidden):
            listable.append(str(path))
            for child in path.iterdir():
                expose(child)
        else:
            readable.append(str(path))

    for root in _existing([*tools, *_LIBRARIES, *_SYSTEM, *_DEVICES, *_interpreter()]):
        expose(Path(root))
    return tuple(readable), tuple(listable)


def _within(path: Path, roots: list[str]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _existing(paths: list[str]) -> list[str]:
    return [path for path in dict.fromkeys(paths) if Path(path).exists()]
