"""Cost of isolation: what a trivial candidate costs in the sandbox, beside a bare fork.

Run ``python -m tests.benchmarks.sandbox [PROGRAMS]``. All figures come from one run, so compare
them with each other and not with another machine's.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time

from evolve.sandbox import Pool
from evolve.task import Limits

RUNNER = "def run(program, given):\n    return program.f(given)\n"
SOURCE = "def f(x):\n    return x + 1\n"
LIMITS = Limits(wall_s=10.0, cpu_s=10.0, memory_mb=2048)


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


def programs(pool: Pool, n: int) -> list[float]:
    """Seconds for each of ``n`` programs: forked, loaded, asked once, killed, reaped."""
    times: list[float] = []

    def drive(share: int) -> None:
        for i in range(share):
            started = time.perf_counter()
            with pool.session(SOURCE) as session:
                assert session.call(i).output == i + 1
            times.append(time.perf_counter() - started)

    threads = [
        threading.Thread(target=drive, args=(n // pool.workers,)) for _ in range(pool.workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def row(name: str, times: list[float], wall_s: float, base_ms: float) -> None:
    """Print one line of the table."""
    cut = statistics.quantiles(times, n=100)
    median = 1000 * cut[49]
    print(
        f"{name:34} {median:8.2f} {1000 * cut[94]:8.2f} {1000 * cut[98]:8.2f} "
        f"{len(times) / wall_s:10.0f} {median / base_ms:8.1f}x"
    )


def main(n: int) -> None:
    """Print the table."""
    print(f"{'':34} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8} {'programs/s':>10} {'to fork':>9}")
    started = time.perf_counter()
    fork = bare_fork(200)
    base_ms = 1000 * statistics.median(fork)
    row("bare fork, exit, wait", fork, time.perf_counter() - started, base_ms)
    for workers in (1, 2):
        with Pool(RUNNER, ("numpy",), LIMITS, workers=workers) as pool:
            programs(pool, 50)
            started = time.perf_counter()
            times = programs(pool, n)
            name = f"tier {pool.tier}, numpy, {workers} worker(s)"
            row(name, times, time.perf_counter() - started, base_ms)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
