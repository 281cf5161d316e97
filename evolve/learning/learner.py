"""An update of the policy: from the rounds in the store to a version that samples, or none.

It reads the store and nothing else, so that a resumed run trains on what the killed one would have.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from evolve.config import Config, Training
from evolve.errors import PolicyError, StoreError
from evolve.learning.batch import training_batch, useful_shares
from evolve.learning.policy import ModelPolicy
from evolve.records import VersionRecord
from evolve.seeding import seed_for
from evolve.store import Store
from vpo.advantages import compute_advantages
from vpo.checkpoint import load_checkpoint, save_checkpoint
from vpo.model import load_version, save_version
from vpo.probe import WeightsMismatchError, check_weights, model_scorer
from vpo.rollouts import Rollout
from vpo.tokens import token_advantages
from vpo.trainer import Trainer

#: A version is rolled back when its share of useful answers lies this many standard errors below
#: that of the version before, and below this part of it.
ROLLBACK_ERRORS = 3.0
ROLLBACK_SHARE = 0.8

#: Sequences on which engine and trainer are compared after every update.
PROBE_SEQUENCES = 4


@dataclass
class PolicyLearner:
    """Trains LoRA adapters on the rollouts of a run and hands each version to the policy."""

    policy: ModelPolicy
    config: Config
    folder: Path
    trainer: Trainer
    base: Any
    #: How many of the programs shown in a prompt its answers have to beat: all, or the parent.
    shows_inspirations: bool
    _initial: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        state = self.trainer.state_dict()
        state["weights"] = {name: value.clone() for name, value in state["weights"].items()}
        self._initial = state

    def load(self, version: int) -> None:
        """Make policy and trainer continue from a stored version; 0 is the initial policy.

        Raises:
            PolicyError: If its files are missing or do not fit.
        """
        if version == 0:
            self.trainer.load_state_dict(self._initial)
            self.policy.model, self.policy.version = self.base, 0
            return
        folder = self.folder / "adapters" / f"v{version}"
        try:
            self.trainer.load_state_dict(load_checkpoint(folder / "trainer.pt"))
            self.policy.model = load_version(self.base, folder)
        except ValueError as error:
            raise PolicyError(f"policy version {version}: {error}") from error
        self.policy.version = version

    def update(self, store: Store, round_: int) -> VersionRecord | None:
        """Train on the rounds since the last update; commit the new version or the rollback.

        Returns:
            The new version, active if it is in use now; or the former one, no longer active, if it
            did worse than its parent and was rolled back. None without rollouts to train on.

        Raises:
            PolicyError: If the policy's engine does not hold the trained weights afterwards.
            StoreError: If the version cannot be written.
        """
        learned = store.meta("learned")
        first = 0 if learned is None else learned + 1
        rolled_back = self._rolled_back(store, round_)
        if rolled_back is not None:
            return rolled_back
        rollouts = training_batch(
            store, first, round_, self.config.search.answers, self.shows_inspirations
        )
        if not rollouts:
            return None
        number = 1 + max((version.version for version in store.versions()), default=0)
        stats = self._train(rollouts, number)
        folder = ""
        if stats["accepted"]:
            path = self._save(number)
            folder = str(path.relative_to(self.folder))
            stats["probe"] = self._swap(path, rollouts)
        record = VersionRecord(
            number, round_, self.policy.version, bool(stats["accepted"]), folder, stats
        )
        with store.transaction():
            store.add_version(record)
            store.set_meta("learned", round_)
        if record.active:
            self.policy.version = number
        else:
            # A refused step may have drawn from the trainer's generator.
            self.load(self.policy.version)
        return record

    def _save(self, number: int) -> Path:
        """Write a version and what its trainer needs; return their folder.

        Raises:
            StoreError: If they cannot be written; nothing of them is left then.
        """
        adapters = self.folder / "adapters"
        try:
            path = save_version(self.trainer.model, adapters, number)
            save_checkpoint(self.trainer.state_dict(), path / "trainer.pt")
        except (OSError, RuntimeError, SafetensorError) as error:
            for left in (adapters / f"v{number}", *adapters.glob(".v*.tmp")):
                shutil.rmtree(left, ignore_errors=True)
            free = shutil.disk_usage(self.folder).free / 2**20
            raise StoreError(
                f"{adapters}: policy version {number} cannot be written ({free:.1f} MiB are free): "
                f"{error}"
            ) from error
        return path

    def _train(self, rollouts: Sequence[Rollout], number: int) -> dict[str, Any]:
        config = self.config.training
        advantages = compute_advantages(
            [rollout.rewards for rollout in rollouts],
            [rollout.group for rollout in rollouts],
            estimator=config.method,
            credit=config.credit,
            alpha=self.config.search.alpha,
            seed=seed_for(self.config.seed, "quadrature", number) % 2**32,
            **_gain(config, rollouts),
        )
        tokens = token_advantages(
            advantages,
            [rollout.answer_spans for rollout in rollouts],
            [len(rollout.completion_ids) for rollout in rollouts],
        )
        minibatches = max(1, round(len(rollouts) / config.batch))
        self.trainer.config = replace(self.trainer.config, minibatches=minibatches)
        stats = asdict(self.trainer.update(rollouts, tokens))
        stats["dead_groups"] = int(advantages.dead_groups.sum())
        stats["groups"] = len(advantages.groups)
        stats["mean_reward"] = float(np.mean([rollout.rewards.mean() for rollout in rollouts]))
        stats["mean_utility"] = float(advantages.utilities.mean())
        stats["mean_abs_advantage"] = float(np.abs(advantages.advantages).mean())
        # JSON has no NaN, and a refused update has some.
        return {
            key: None if isinstance(value, float) and not np.isfinite(value) else value
            for key, value in stats.items()
        }

    def _swap(self, path: Path, rollouts: Sequence[Rollout]) -> float:
        """Load a version into the engine; return how far its log-probabilities are off, nats."""
        engine = load_version(self.base, path)
        sequences = [
            [*rollout.prompt_ids, *rollout.completion_ids] for rollout in rollouts[:PROBE_SEQUENCES]
        ]
        try:
            gap = check_weights(model_scorer(engine), model_scorer(self.trainer.model), sequences)
        except WeightsMismatchError as error:
            raise PolicyError(f"{path}: {error}") from error
        self.policy.model = engine
        return gap

    def _rolled_back(self, store: Store, round_: int) -> VersionRecord | None:
        versions = {record.version: record for record in store.versions()}
        current = versions.get(self.policy.version)
        if current is None or not current.active:
            return None
        answers = self.config.search.answers
        now = useful_shares(store, current.version, answers)
        before = useful_shares(store, current.parent, answers)
        if not len(now) or not len(before):
            return None
        error = float(np.sqrt(now.var() / len(now) + before.var() / len(before)))
        drop = float(before.mean() - now.mean())
        if drop <= ROLLBACK_ERRORS * error or now.mean() >= ROLLBACK_SHARE * before.mean():
            return None
        reason = (
            f"rolled back to v{current.parent}: useful answers fell from {before.mean():.1%} to "
            f"{now.mean():.1%}"
        )
        with store.transaction():
            store.set_active(current.version, False)
            store.add_event(round_, "rollback", f"policy v{current.version} {reason}")
            store.set_meta("learned", round_)
        self.load(current.parent)
        return replace(current, active=False, stats={**current.stats, "reason": reason})


def _gain(config: Training, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    if config.method not in ("vpo", "vpo_iid") or not config.gain:
        return {}
    options: dict[str, Any] = {"references": [rollout.reference for rollout in rollouts]}
    if config.method == "vpo" and config.shaping:
        # Mean reward of the answers, so that groups in which nothing beats the parent still rank.
        k = rollouts[0].rewards.shape[1]
        options["multipliers"] = [config.shaping / k] * k
    return options
