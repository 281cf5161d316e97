"""Candidates per second of the campaign loop alone, from 1,000 to 50,000 candidates.

An instant policy and an instant evaluator leave prompt, parse, apply, fingerprint, archive and
store. The limit is 1,000 candidates/s on one core, and the cost must not grow with the run.

    python -m tests.benchmarks.campaign [--candidates 50000]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evolve.campaign import Campaign, judge_start, plant
from evolve.canonical import View, canonical_view
from evolve.config import Config
from evolve.evaluate import Evaluation
from evolve.policy import Ask, Completion
from evolve.prompts import Shown, numbered
from evolve.sandbox import Status
from evolve.store import Store
from evolve.task import load_task

LIMIT = 1000.0


@dataclass
class InstantPolicy:
    """Replaces one line by a new assignment; every answer is another program."""

    form: str = "line"
    version: int = 0

    def view(self, source: str) -> View:
        return canonical_view(source)

    def render(self, shown: Shown) -> tuple[str, tuple[int, ...]]:
        return numbered(shown.view), ()

    def sample(
        self, asks: Sequence[Ask], rollouts: int, answers: int
    ) -> Iterator[list[Completion]]:
        for ask in asks:
            _, round_, slot = ask.key
            number = 1 + (round_ + slot) % len(ask.view.lines)
            old = ask.view.lines[number - 1]
            indent = old[: len(old) - len(old.lstrip())] or "    "
            key = (round_ * 1000 + slot) * 1000
            yield [
                Completion(
                    "".join(
                        f"@{j + 1}\n1+{indent}v0 = v0 * 1.{key + r * answers + j}\n"
                        for j in range(answers)
                    )
                )
                for r in range(rollouts)
            ]


def instant(k: int, d: int):
    """An evaluator that draws rewards and descriptors from the hash of the program."""

    def evaluate(source: str) -> Evaluation:
        rng = np.random.Generator(np.random.PCG64(abs(hash(source))))
        draws = rng.random(k + d)
        return Evaluation(
            status=Status.OK,
            rewards=tuple(draws[:k].tolist()),
            values={},
            descriptors=tuple((draws[k:] * 10).tolist()),
            feedback="",
            stage="all",
            wall_s=0.0,
            cpu_s=0.0,
            max_rss_kb=0,
            outputs_digest="",
            printed="",
        )

    return evaluate


@dataclass
class Curve:
    """Keeps (evaluations, seconds) at the end of each round."""

    started: float = field(default_factory=time.perf_counter)
    points: list[tuple[int, float]] = field(default_factory=list)

    def on_round(self, report) -> None:
        self.points.append((report.evaluations, time.perf_counter() - self.started))

    def __getattr__(self, name: str):
        if name.startswith("on_"):
            return lambda *_: None
        raise AttributeError(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=50_000)
    parser.add_argument("--task", default="online_bin_packing")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    task = load_task(options.task)
    config = Config.model_validate(
        {
            "task": options.task,
            "budget": {"evaluations": options.candidates},
            "sandbox": {"workers": 1},
        }
    )
    evaluate = instant(task.k, len(task.descriptors))
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder), "create") as store:
        plant(store, task, config, judge_start(task, evaluate))
        curve = Curve()
        Campaign(task, config, store, InstantPolicy(), evaluate, curve).run()
        megabytes = (Path(folder) / "run.db").stat().st_size / 2**20
    print(f"{'candidates':>12s} {'per second':>12s} {'ratio to limit':>15s}")
    marks = [n for n in (1000, 2000, 5000, 10_000, 20_000, 50_000) if n <= options.candidates]
    before = (0, 0.0)
    first = None
    for mark in marks:
        point = next(p for p in curve.points if p[0] >= mark)
        rate = (point[0] - before[0]) / (point[1] - before[1])
        first = first or rate
        print(f"{before[0]:>6d}-{point[0]:<6d}{rate:11.0f} {rate / LIMIT:14.2f}x")
        before = point
    print(f"whole run: {curve.points[-1][0] / curve.points[-1][1]:.0f}/s; last stretch over first: "
          f"{rate / first:.2f}; database {megabytes:.0f} MiB")  # fmt: skip


if __name__ == "__main__":
    main()
