"""Adds to the archive against pyribs 0.12 in one run, by the number of adds at a time.

The data of pyribs's own benchmark fixture (``benchmark_data_10k`` in its tests/archives/
conftest.py): 10,000 solutions, objectives N(0, 1), measures U(-1, 1)^2; a grid of 64 x 64 and a
tessellation of 1,000 cells whose centroids pyribs makes and both use. The solution stored is the
number of a program on both sides. Each figure is the best of several whole fills of a fresh
archive, which alternate between the two. The vector archive of a campaign (4 rewards, 32 weights)
stands beside them for what it costs; pyribs has nothing like it.

    python -m tests.benchmarks.archive [--repeats 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from ribs.archives import CVTArchive, GridArchive, k_means_centroids

from evolve.archive import Archive, uniform_bank
from evolve.bank import weight_bank
from evolve.tessellation import Cvt, Grid, Tessellation

SIZES = (1, 10, 100, 10_000)
LIMITS = {1: 10.0, 10: 3.0}
BOX = [(-1.0, 1.0), (-1.0, 1.0)]

Fill = Callable[[int], None]


def cells_and_peer(kind: str) -> tuple[Tessellation, Callable[[], GridArchive | CVTArchive]]:
    """Return our cells and a function that makes a fresh archive of pyribs with the same ones."""
    peer = {"solution_dim": (), "solution_dtype": np.int64, "ranges": BOX}
    if kind == "grid":
        return Grid([-1, -1], [1, 1], [64, 64]), lambda: GridArchive(dims=[64, 64], **peer)
    centroids = np.asarray(k_means_centroids(centroids=1000, ranges=BOX, samples=50_000, seed=0)[0])
    ours = Cvt([-1, -1], [1, 1], centroids)
    return ours, lambda: CVTArchive(centroids=centroids, **peer)


def fills(kind: str) -> dict[str, Fill]:
    """Return what fills a fresh archive with all the data, so many adds at a time."""
    rng = np.random.default_rng(42)
    rng.uniform(-1, 1, (10_000, 10))  # the fixture's solutions, which come first
    objectives, measures = rng.standard_normal(10_000), rng.uniform(-1, 1, (10_000, 2))
    ids = np.arange(10_000)
    lengths = np.ones(10_000)
    rewards = rng.random((10_000, 4))
    cells, fresh = cells_and_peer(kind)
    column, rows, points = objectives[:, None], column_lists(objectives), measures.tolist()
    vectors = rewards.tolist()
    bank = weight_bank(4, 1.0, 32, np.random.default_rng(0))

    def pyribs(size: int) -> None:
        archive = fresh()
        if size == 1:
            for i in range(10_000):
                archive.add_single(i, objectives[i], measures[i])
        else:
            for part in parts(size):
                archive.add(ids[part], objectives[part], measures[part])

    def filled(archive: Archive, one: list[list[float]], many: np.ndarray, size: int) -> None:
        if size == 1:
            for i in range(10_000):
                archive.add(i, one[i], points[i], 1)
        else:
            for part in parts(size):
                archive.add_batch(ids[part], many[part], measures[part], lengths[part])

    return {
        "pyribs": pyribs,
        "ours": lambda size: filled(Archive(cells, uniform_bank(1)), rows, column, size),
        "vector": lambda size: filled(Archive(cells, bank), vectors, rewards, size),
    }


def column_lists(values: np.ndarray) -> list[list[float]]:
    """Return each value as a reward vector of its own."""
    return [[value] for value in values.tolist()]


def parts(size: int) -> list[slice]:
    """Return the slices of 10,000 into batches."""
    return [slice(start, start + size) for start in range(0, 10_000, size)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"{'microseconds an add':24s}{'pyribs':>10s}{'ours':>10s}{'ratio':>9s}{'wanted':>9s}"
          f"{'vector':>10s}")  # fmt: skip
    for kind in ("grid", "cvt"):
        writers = fills(kind)
        for write in writers.values():
            write(100)  # numba compiles
        for size in SIZES:
            best = dict.fromkeys(writers, np.inf)
            for _ in range(options.repeats):
                for name, write in writers.items():
                    start = time.perf_counter()
                    write(size)
                    best[name] = min(best[name], time.perf_counter() - start)
            peer, ours, vector = (100 * seconds for seconds in best.values())
            wanted = f"{LIMITS[size]:.0f}x" if size in LIMITS else "stated"
            print(f"{kind + ', ' + str(size) + ' at a time':24s}{peer:10.2f}{ours:10.2f}"
                  f"{peer / ours:8.1f}x{wanted:>9s}{vector:10.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
