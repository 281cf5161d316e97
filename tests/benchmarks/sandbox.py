"""Cost of isolation: what a trivial candidate costs, layer by layer, beside a bare fork.

Run ``python -m tests.benchmarks.sandbox [PROGRAMS]`` for the layers, and ``... flat [PROGRAMS]`` to
see that the cost and the use of memory, descriptors and processes stay flat over 20,000 programs.
All figures come from one run on a machine that may be busy: compare them with the bare fork of the
same run. CPU time a program is the steadiest figure. The last line of each holds the figures
against the limits that the project has set itself; a missed one is exit code 1.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import threading
import time
from pathlib import Path

from evolve.sandbox import Pool
from evolve.sandbox.tiers import TIERS, probe
from evolve.task import Limits
from tests.evolve.workers import descendants, zygote

#: For the strongest tier and two workers: programs a second, and milliseconds for 99 of 100.
RATE, P99_MS = 250.0, 15.0
#: KiB that a process may grow by in 1,000 programs, and how much slower the last third may be.
SLOPE_KIB, SLOWER = 16.0, 1.15

RUNNER = "def run(program, given):\n    return program.f(given)\n"
SOURCE = "def f(x):\n    return x + 1\n"
LIMITS = Limits(wall_s=30.0, cpu_s=10.0, memory_mb=2048)
LAYERS = {
    "D": "process, limits",
    "C": "+ filter of calls",
    "B": "+ Landlock",
    "A": "+ namespaces",
}


def bare_fork(n: int) -> list[float]:
    """Seconds for a fork of this process, an exit and a wait."""
    times = []
    for _ in range(n):
        started = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        times.append(time.perf_counter() - started)
    return times


def programs(pool: Pool, n: int) -> list[tuple[float, float]]:
    """Wall and CPU seconds of each of ``n`` programs: forked, loaded, asked once, killed."""
    times: list[tuple[float, float]] = []

    def drive(share: int) -> None:
        for i in range(share):
            started = time.perf_counter()
            with pool.session(SOURCE) as session:
                # As in a task, there are so many inputs and no more.
                assert session.call(i % 100).output == i % 100 + 1
                usage = session.close()
            times.append((time.perf_counter() - started, usage.cpu_s))

    share = n // pool.workers
    threads = [threading.Thread(target=drive, args=(share,)) for _ in range(pool.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def row(
    name: str, times: list[float], cpu_s: float, wall_s: float, fork_s: float
) -> tuple[float, float]:
    """Print one line of the table; return programs a second and the 99th percentile, ms."""
    cut = statistics.quantiles(times, n=100)
    print(
        f"{name:40} {1000 * cut[49]:7.2f} {1000 * cut[94]:7.2f} {1000 * cut[98]:7.2f} "
        f"{1000 * cpu_s:7.2f} {len(times) / wall_s:8.0f}/s {cut[49] / fork_s:6.1f}x"
    )
    return len(times) / wall_s, 1000 * cut[98]


def layers(n: int) -> bool:
    """Print the cost of each layer, with one worker and with two; return whether it is low."""
    rate, p99 = 0.0, 0.0
    print(f"{'':40} {'p50 ms':>7} {'p95 ms':>7} {'p99 ms':>7} {'CPU ms':>7} {'':10} {'to fork':>7}")
    used, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    fork = bare_fork(300)
    wall_s = time.perf_counter() - started
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = (spent.ru_stime + spent.ru_utime - used.ru_stime - used.ru_utime) / len(fork)
    base = statistics.median(fork)
    row("bare fork, exit, wait", fork, cpu_s, wall_s, base)
    for tier in reversed(TIERS):
        if not probe(tier).works:
            print(f"tier {tier}: {probe(tier).reason}")
            continue
        for workers in (1, 2):
            with Pool(RUNNER, ("numpy",), LIMITS, workers, tier=tier) as pool:
                programs(pool, 50)
                own = time.process_time()
                started = time.perf_counter()
                both = programs(pool, n)
                wall_s = time.perf_counter() - started
                own = (time.process_time() - own) / len(both)
                child = statistics.mean(cpu for _, cpu in both)
                name = f"tier {tier} ({LAYERS[tier]}), numpy, {workers} worker(s)"
                walls = [wall for wall, _ in both]
                rate, p99 = row(name, walls, own + child, wall_s, base)
    met = rate >= RATE and p99 < P99_MS
    print(
        f"{'met' if met else 'MISSED'}: {rate:.0f} programs/s (at least {RATE:.0f}), "
        f"99 of 100 within {p99:.1f} ms (less than {P99_MS:.0f})"
    )
    return met


def flat(n: int) -> bool:
    """Print what grows over ``n`` programs; return whether nothing does."""
    with Pool(RUNNER, ("numpy",), LIMITS, 2) as pool:
        print(
            f"tier {pool.tier}: programs, programs/s, CPU ms, parent and worker MiB, descriptors, "
            "processes, mounts"
        )
        with pool.session("") as session:
            worker = zygote(session._worker)
        rows: list[tuple[float, ...]] = []
        while len(rows) * 1000 < n:
            started = time.perf_counter()
            both = programs(pool, 1000)
            rows.append(
                (
                    len(both) / (time.perf_counter() - started),
                    1000 * statistics.mean(cpu for _, cpu in both),
                    rss_mib(os.getpid()),
                    rss_mib(worker),
                    len(list(Path("/proc/self/fd").iterdir())),
                    len(descendants(os.getpid())),
                    # A file system that a program leaves behind would stay mounted.
                    len(Path(f"/proc/{worker}/mounts").read_text().splitlines()),
                )
            )
            speed, cpu, own, theirs, *counts = rows[-1]
            print(
                f"{1000 * len(rows):8} {speed:8.0f}/s {cpu:8.2f} {own:8.1f} {theirs:8.1f} "
                f"{' '.join(f'{count:6}' for count in counts)}",
                flush=True,
            )
    return _judge(rows)


def _judge(rows: list[tuple[float, ...]]) -> bool:
    # The first thousands fill caches.
    steady = rows[len(rows) // 5 :]
    own, theirs = (
        1024 * statistics.linear_regression(range(len(steady)), [row[i] for row in steady]).slope
        for i in (2, 3)
    )
    third = max(1, len(steady) // 3)
    first, last = (
        statistics.median(r[1] for r in part) for part in (steady[:third], steady[-third:])
    )
    leaked = [
        name
        for i, name in ((4, "descriptors"), (5, "processes"), (6, "mounts"))
        if steady[-1][i] > steady[0][i]
    ]
    met = max(own, theirs) < SLOPE_KIB and last < SLOWER * first and not leaked
    print(
        f"{'met' if met else 'MISSED'}: parent {own:+.1f} and worker {theirs:+.1f} KiB in 1,000 "
        f"programs (less than {SLOPE_KIB:.0f}), CPU time {last / first - 1:+.1%} from the first to "
        f"the last third (less than {SLOWER - 1:.0%}), leaked: {', '.join(leaked) or 'nothing'}"
    )
    return met


def rss_mib(pid: int) -> float:
    """Resident memory of a process, MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main(words: list[str]) -> int:
    """Run what the command line asks for."""
    if words[:1] == ["flat"]:
        return 0 if flat(int(words[1]) if words[1:] else 20_000) else 1
    return 0 if layers(int(words[0]) if words else 1000) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
