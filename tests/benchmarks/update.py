"""Seconds of one update of ``pocket`` on a round of 16 prompts x 8 rollouts x 3 answers.

The rollouts are sampled from the shipped model on a shipped task and kept in a run's database as in
a campaign; rewards come at once, drawn from the program's text, since the sandbox is not what is
measured. Sampling is timed in the same run. The limit is 30 s on two cores; the embedded model
trains on one.

    python -m tests.benchmarks.update [--task online_bin_packing] [--updates 3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from evolve.campaign import Campaign, judge_start, plant
from evolve.config import Config
from evolve.learning import open_model
from evolve.store import Store
from evolve.task import load_task
from tests.benchmarks.campaign import instant

LIMIT_S = 30.0


class OneRound:
    """Listens to nothing; what ends a campaign after a round is set by its owner."""

    def __getattr__(self, name: str):
        if name.startswith("on_"):
            return lambda *_: None
        raise AttributeError(name)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--task", default="online_bin_packing")
    parser.add_argument("--updates", type=int, default=3)
    options = parser.parse_args()
    task = load_task(options.task)
    evaluate = instant(task.k, len(task.descriptors))
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder), "create") as store:
        config = Config.model_validate(
            {
                "task": options.task,
                "search": {"prompts": 16, "rollouts": 8, "answers": 3},
                "training": {"every": 1},
                "sandbox": {"workers": 1},
            }
        )
        policy, learner = open_model(config, Path(folder))
        plant(store, task, config, judge_start(task, evaluate))
        print(f"{'update':>6s}{'rollouts':>10s}{'tokens':>9s}{'sampling s':>12s}{'update s':>10s}"
              f"{'to limit':>10s}")  # fmt: skip
        for update in range(options.updates):
            once = OneRound()
            campaign = Campaign(task, config, store, policy, evaluate, once)
            once.on_round = lambda _, running=campaign: running.stop()
            start = time.perf_counter()
            campaign.run()
            sampled = time.perf_counter() - start
            start = time.perf_counter()
            record = learner.update(store, update)
            seconds = time.perf_counter() - start
            stats = record.stats
            print(f"{update + 1:6d}{stats['rollouts']:10d}{stats['tokens']:9d}{sampled:12.1f}"
                  f"{seconds:10.1f}{seconds / LIMIT_S:9.2f}x")  # fmt: skip


if __name__ == "__main__":
    main()
