"""Cost of isolation: what a trivial candidate costs, layer by layer, beside a bare fork.

Run ``python -m tests.benchmarks.sandbox [PROGRAMS]`` for the layers, and ``... flat [PROGRAMS]`` to
see that the cost and the use of memory, descriptors and processes stay flat over 20,000 programs.
All figures come from one run on a machine that may be busy: compare them with the bare fork of the
same run. CPU time a program is the steadiest figure.
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
                assert session.call(i).output == i + 1
                usage = session.close()
            times.append((time.perf_counter() - started, usage.cpu_s))

    share = n // pool.workers
    threads = [threading.Thread(target=drive, args=(share,)) for _ in range(pool.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def row(name: str, times: list[float], cpu_s: float, wall_s: float, fork_s: float) -> None:
    """Print one line of the table."""
    cut = statistics.quantiles(times, n=100)
    print(
        f"{name:40} {1000 * cut[49]:7.2f} {1000 * cut[94]:7.2f} {1000 * cut[98]:7.2f} "
        f"{1000 * cpu_s:7.2f} {len(times) / wall_s:8.0f}/s {cut[49] / fork_s:6.1f}x"
    )


def layers(n: int) -> None:
    """Print the cost of each layer, with one worker and with two."""
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
                row(name, [wall for wall, _ in both], own + child, wall_s, base)


def flat(n: int) -> None:
    """Print what grows, if anything does, over ``n`` programs."""
    with Pool(RUNNER, ("numpy",), LIMITS, 2) as pool:
        print(
            f"tier {pool.tier}: programs, programs/s, CPU ms, parent and worker MiB, fds, processes"
        )
        with pool.session("") as session:
            worker = zygote(session._worker)
        done = 0
        while done < n:
            started = time.perf_counter()
            both = programs(pool, min(1000, n))
            wall_s = time.perf_counter() - started
            done += len(both)
            print(
                f"{done:8} {len(both) / wall_s:8.0f}/s "
                f"{1000 * statistics.mean(cpu for _, cpu in both):8.2f} "
                f"{rss_mib(os.getpid()):8.1f} {rss_mib(worker):8.1f} "
                f"{len(list(Path('/proc/self/fd').iterdir())):6} {len(descendants(os.getpid())):4}",
                flush=True,
            )


def rss_mib(pid: int) -> float:
    """Resident memory of a process, MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["flat"]:
        flat(int(words[1]) if words[1:] else 20_000)
    else:
        layers(int(words[0]) if words else 1000)
