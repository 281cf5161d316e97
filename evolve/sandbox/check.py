"""A look at the isolation that this machine gives: each tier tried, and a few attacks.

The complete list of attacks is in the project's tests; SECURITY.md has their outcome.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from evolve.errors import SandboxError
from evolve.sandbox.outcome import Status
from evolve.sandbox.pool import Pool
from evolve.sandbox.tiers import TIERS, choose, probe
from evolve.task import Limits

_RUNNER = "def run(program, given):\n    return program.f(given)\n"
_LIMITS = Limits(wall_s=2.0, cpu_s=0.3, memory_mb=512, output_kb=64)
_HONEST = "def f(x): return x * 2 + 1"

# What each deed must end in is an error. It is tried only where the tier has passed its probe.
_DEEDS = {
    "read a file outside": "open(x['file']).read()",
    "write a file outside": "open(x['file'], 'a').write('x')",
    "change the mode of a file outside": "os.chmod(x['file'], 0o600)",
    "remove a file outside": "os.remove(x['file'])",
    "read the environment of the campaign": "open(f\"/proc/{x['pid']}/environ\").read()",
    "fork": "os.fork() or os._exit(0)",
    "run another program": "os.posix_spawn('/bin/true', ['true'], {})",
    "signal the campaign": "os.kill(x['pid'], 0)",
    "trace its parent": "refuse(libc.ptrace(0x4206, os.getppid(), 0, 0))",
    "open a socket": "socket.socket().connect(('127.0.0.1', 9))",
    "raise its limits": "resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))",
}
_ENDS = {
    "spin": ("while True: pass", {Status.TIMEOUT_CPU, Status.TIMEOUT_WALL}),
    "sleep": ("import time; time.sleep(60)", {Status.TIMEOUT_WALL}),
    "take 6 GiB of memory": ("bytearray(6 << 30)", {Status.MEMORY}),
    "exit with success": ("import os; os._exit(0)", {Status.EXITED_EARLY}),
    "crash": ("import ctypes; ctypes.string_at(0)", {Status.CRASHED}),
    "answer too much": ("return 'x' * (1 << 20)", {Status.OUTPUT_LIMIT}),
    "answer with a disguised object": ("return type('F', (float,), {})()", {Status.INVALID_OUTPUT}),
    "forge an answer": (
        "import os; os.write(3, b'won' * 9)",
        {Status.PROTOCOL_ERROR, Status.OUTPUT_LIMIT},
    ),
}


def quick_check() -> Iterator[str]:
    """Yield lines on the tiers of this machine and on a few attacks at the best of them.

    Raises:
        SandboxError: After the last line, if the best tier is weaker than B or an attack got
            through.
    """
    for tier in TIERS:
        found = probe(tier)
        yield f"tier {tier}: {'works' if found.works else 'no: ' + found.reason}"
    tier = choose("B")
    yield f"candidates run at tier {tier}"
    failures = []
    with Pool(_RUNNER, (), _LIMITS, 1, tier=tier) as pool:
        for name, verdict in _attacks(pool):
            yield f"  {verdict:16} {name}"
            if verdict == "GOT THROUGH":
                failures.append(name)
        times = sorted(_time(pool) for _ in range(100))
    middle, late = 1000 * statistics.median(times), 1000 * times[98]
    yield f"a trivial program takes {middle:.1f} ms (99 % within {late:.1f} ms)"
    if failures:
        raise SandboxError(f"the sandbox is not safe on this machine: {', '.join(failures)}")


def _attacks(pool: Pool) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="evolve-check-") as folder:
        file = Path(folder) / "file"
        file.write_text("a file outside")
        for path in (Path(folder), file):
            # Only the sandbox stands in the way, not the mode of the file.
            path.chmod(0o777)
        given = {"file": str(file), "pid": os.getpid()}
        for name, deed in _DEEDS.items():
            yield name, _verdict(pool, _attempt(deed), given, {Status.OK}, refused=True)
            if file.read_text() != "a file outside":
                yield name, "GOT THROUGH"
        for name, (body, statuses) in _ENDS.items():
            yield name, _verdict(pool, f"def f(x):\n {body}\n", given, statuses, refused=False)


def _attempt(deed: str) -> str:
    return f"""
import ctypes, os, resource, socket
libc = ctypes.CDLL(None)
def refuse(result):
    if result < 0:
        raise OSError
def f(x):
    try:
        {deed}
    except (OSError, ValueError):
        return "refused"
    return "done"
"""


def _verdict(
    pool: Pool, source: str, given: object, statuses: set[Status], *, refused: bool
) -> str:
    with pool.session(source) as session:
        reply = session.call(given)
    if reply.status not in statuses or (refused and reply.output != "refused"):
        return "GOT THROUGH"
    with pool.session(_HONEST) as session:
        if session.call(20).output != 41:
            return "GOT THROUGH"
    return "refused" if refused else str(reply.status)


def _time(pool: Pool) -> float:
    started = time.perf_counter()
    with pool.session(_HONEST) as session:
        session.call(1)
    return time.perf_counter() - started
