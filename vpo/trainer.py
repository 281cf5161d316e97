"""The update of a policy from its own rollouts: a small loop, no framework.

One update: advantages from the caller; log-probabilities in micro-batches of a token budget; the
clipped objective on the stored behaviour log-probabilities, averaged over the global batch; k3 KL
to the initial policy; AdamW. An update that is not finite or moves the policy too far is undone.
Rollouts of groups without signal (all advantages 0) are left out, the averages are over the rest.
On several processes see :mod:`vpo.parallel`.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from peft import PeftModel
from torch import Tensor, nn
from transformers import PreTrainedModel

from vpo import parallel
from vpo.batch import Batch, with_signal
from vpo.decoding import attends_to_everything
from vpo.model import Model, base_of, prepare_for_training, save_version
from vpo.objective import objective
from vpo.packing import Costs, MicroBatch, Row, collate, make_rows, micro_batches
from vpo.rollouts import Rollout
from vpo.scoring import TokenScorer
from vpo.settings import Importance, TrainerConfig
from vpo.tally import Tally, UpdateStats

__all__ = ["Importance", "Trainer", "TrainerConfig", "UpdateRefusedError", "UpdateStats"]

#: Tokens of completions on which the size of a step is measured after it.
GUARD_TOKENS = 2048

# What a process computes when the others have a micro-batch more than it has.
_IDLE = Row((0,), ((0,),), (-1,))


class UpdateRefusedError(RuntimeError):
    """An update went wrong and must be undone; the message says how."""


class Trainer:
    """Holds the trained model, its optimiser and its version number."""

    def __init__(
        self,
        model: Model,
        config: TrainerConfig,
        *,
        seed: int = 0,
        reference: PreTrainedModel | None = None,
    ) -> None:
        """Take over ``model``: its trainable parameters, and its dropout, which is switched off.

        Args:
            model: What is trained.
            config: How to update.
            seed: Of the order of mini-batches.
            reference: The initial policy. By default, with LoRA, the model without its adapter,
                and with full weights a copy of the model as it is now; a trainer that is to be
                resumed by :meth:`load_state_dict` therefore starts from the initial model.
        """
        self.model = model
        self.config = config
        self.version = 0
        self._rng = np.random.default_rng(seed)
        prepare_for_training(model, checkpointing=config.gradient_checkpointing)
        self._shared = attends_to_everything(base_of(model))
        self._costs = Costs.of(base_of(model))
        self._dtype = base_of(model).dtype
        self._budget = config.token_budget
        self._scorer = TokenScorer(model, config.temperature)
        self._reference: TokenScorer | None = None
        if config.kl_coef > 0 and (reference is not None or not isinstance(model, PeftModel)):
            frozen = copy.deepcopy(model if reference is None else reference)
            self._reference = TokenScorer(frozen.requires_grad_(False), config.temperature)
        if config.shard:
            for scorer in (self._scorer, self._reference):
                if scorer is not None:
                    parallel.shard(scorer, scorer.layers())
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        if not self._parameters:
            raise ValueError("the model has no trainable parameter")
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=config.learning_rate, weight_decay=config.weight_decay
        )

    def update(
        self, rollouts: Sequence[Rollout], advantages: npt.NDArray[np.floating]
    ) -> UpdateStats:
        """Improve the policy on its rollouts, or leave it as it was and say why.

        Args:
            rollouts: B of them, sampled by this or a recent version; on several processes the share
                of this one, which may be empty.
            advantages: (B,) one for each rollout, or (B, T) one for each token, T the longest
                completion.

        Raises:
            ValueError: If the advantages do not fit the rollouts or are not finite.
        """
        started = time.perf_counter()
        batch = with_signal(rollouts, advantages)
        (count,) = self._total(len(batch.rollouts))
        tally, step_kl = Tally(), math.nan
        reason = "" if count else "no group has signal"
        if count:
            batch.put(self.model.device)
            before = self._snapshot()
            self.model.train()
            try:
                step_kl = self._improve(batch, tally)
            except UpdateRefusedError as error:
                self._restore(before)
                reason = str(error)
            except BaseException:
                self._restore(before)
                raise
            finally:
                self.model.train(False)
                self._optimizer.zero_grad(set_to_none=True)
        tally.gather(self.model.device)
        self.version += not reason
        return UpdateStats(
            accepted=not reason,
            reason=reason,
            version=self.version,
            step_kl=step_kl,
            rollouts=int(count),
            skipped_groups=batch.skipped_groups,
            token_budget=self._budget,
            seconds=time.perf_counter() - started,
            **tally.means(),
        )

    def steer(self, *, entropy_coef: float, temperature: float) -> None:
        """Change what controllers change between updates.

        Args:
            entropy_coef: Weight of the entropy.
            temperature: At which the rollouts of the next update are sampled.
        """
        self.config = replace(self.config, entropy_coef=entropy_coef, temperature=temperature)
        for scorer in (self._scorer, self._reference):
            if scorer is not None:
                scorer.temperature = temperature

    def save(self, folder: Path) -> Path:
        """Write the present version, see :func:`vpo.model.save_version`; all processes call it."""
        weights = None
        if self.config.shard:
            weights = parallel.whole(dict(self.model.named_parameters()))
        path = folder / f"v{self.version}"
        if parallel.is_first():
            path = save_version(self.model, folder, self.version, weights)
        parallel.wait_for_all()
        return path

    def state_dict(self) -> dict[str, Any]:
        """Return all that an exact continuation needs, as tensors and plain data.

        It is the same on all processes, and all of them must call it.
        """
        trained = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        state: dict[str, Any] = parallel.whole(
            {
                "version": self.version,
                "rng": self._rng.bit_generator.state,
                "weights": trained,
                "optimizer": self._optimizer.state_dict(),
            }
        )
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict` of a trainer of the same model and configuration.

        Raises:
            ValueError: If a weight is missing or has another shape.
        """
        own = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        for name, parameter in own.items():
            stored = state["weights"].get(name)
            if stored is None or stored.shape != parameter.shape:
                raise ValueError(f"checkpoint: weight {name} is missing or of another shape")
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(parallel.split_like(state["weights"][name], parameter))
        optimizer = dict(state["optimizer"])
        optimizer["state"] = {
            index: {
                key: parallel.split_like(value, self._parameters[index])
                for key, value in moments.items()
            }
            for index, moments in optimizer["state"].items()
        }
        self._optimizer.load_state_dict(optimizer)
        self._rng.bit_generator.state = state["rng"]
        self.version = state["version"]

    def _improve(self, batch: Batch, tally: Tally) -> float:
        """Take the steps of an update; return how far they moved the policy.

        Raises:
            UpdateRefusedError: If the update must be undone.
        """
        rows = self._rows(batch, range(len(batch.rollouts)))
        if self.config.importance is not None:
            batch.trainer = self._score(self._scorer, rows)
        if self.config.kl_coef > 0:
            batch.reference = self._reference_scores(rows)
        for _ in range(self.config.epochs):
            for part in self._split(rows):
                tally.merge(self._step(part, batch))
        return self._step_kl(rows, batch)

    def _rows(self, batch: Batch, members: Sequence[int]) -> list[Row]:
        return make_rows(
            [batch.rollouts[i].prompt_ids for i in members],
            [batch.rollouts[i].completion_ids for i in members],
            members,
            shared=self._shared,
            costs=self._costs,
            budget=self._budget,
        )

    def _split(self, rows: list[Row]) -> list[list[Row]]:
        """Return the mini-batches of a pass, each sorted by length; as many on each process."""
        count = self.config.minibatches
        if count == 1:
            return [rows]
        if parallel.processes() == 1:
            count = min(count, len(rows))
        parts = np.array_split(self._rng.permutation(len(rows)), count)
        return [[rows[index] for index in sorted(part)] for part in parts]

    def _step(self, rows: list[Row], batch: Batch) -> Tally:
        """Take one optimiser step and return its sums.

        Raises:
            UpdateRefusedError: If the gradient is not finite, or memory is out twice.
        """
        try:
            tally = self._gradients(rows, batch)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not _out_of_memory(error) or parallel.processes() > 1:
                raise
            tally = None
        if tally is None:  # outside the handler, which would keep the tensors alive
            self._budget = max(1, self._budget // 2)
            rows = self._rows(batch, [member for row in rows for member in row.members])
            try:
                tally = self._gradients(rows, batch)
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not _out_of_memory(error):
                    raise
                raise UpdateRefusedError(
                    f"out of memory even with micro-batches of {self._budget} tokens"
                ) from error
        norm = parallel.whole(
            nn.utils.clip_grad_norm_(self._parameters, self.config.grad_clip)
        ).item()
        tally.grad_norm, tally.steps = norm, 1
        if not math.isfinite(norm):
            raise UpdateRefusedError("the gradient is not finite")
        self._optimizer.step()
        return tally

    def _gradients(self, rows: list[Row], batch: Batch) -> Tally:
        """Set the gradients of a mini-batch and return its sums."""
        self._optimizer.zero_grad(set_to_none=True)
        members = [member for row in rows for member in row.members]
        tokens, sequences = self._total(
            sum(len(batch.rollouts[member].completion_ids) for member in members), len(members)
        )
        # Sharding averages over the processes where the loss wants a sum.
        factor = parallel.processes() if self.config.shard else 1
        tally = Tally()
        for group in self._micro_batches(rows):
            micro = self._collate(group)
            with self._precision():
                scores = self._scorer(micro)
            if group[0] is _IDLE:
                loss = 0.0 * (scores[0].sum() + scores[1].sum())
            else:
                loss = objective(
                    self.config,
                    micro,
                    scores,
                    batch,
                    tokens=tokens,
                    sequences=sequences,
                    tally=tally,
                )
            torch.autograd.backward(loss * factor)
        if not self.config.shard:
            parallel.sum_gradients(self._parameters)
        return tally

    def _step_kl(self, rows: list[Row], batch: Batch) -> float:
        """Return the mean KL from the behaviour policy to the present one, on some of the rows.

        Raises:
            UpdateRefusedError: If it is not finite or larger than allowed.
        """
        tokens = sum(len(completion) for row in rows for completion in row.completions)
        scores = self._score(self._scorer, rows[:: max(1, math.ceil(tokens / GUARD_TOKENS))])
        total, count, faults = 0.0, 0, 0
        for member, new in scores.items():
            gaps = torch.nan_to_num(new - batch.behaviour[member], nan=0.0)
            # E_old[rho - 1 - log rho] = KL(old || new).
            total += float((torch.expm1(gaps) - gaps).sum())
            count += len(new)
            faults += int((~torch.isfinite(new)).sum())
        total, count_all, faults_all = self._total(total, count, faults)
        kl, limit = total / count_all, self.config.max_step_kl
        if faults_all or not math.isfinite(kl):
            raise UpdateRefusedError("the updated policy's log-probabilities are not finite")
        if limit is not None and kl > limit:
            raise UpdateRefusedError(
                f"the update moved the policy by {kl:.3g} nats a token, allowed are {limit:g}"
            )
        return kl

    def _reference_scores(self, rows: list[Row]) -> dict[int, Tensor]:
        if self._reference is not None:
            return self._score(self._reference, rows)
        assert isinstance(self.model, PeftModel)
        with self.model.disable_adapter():
            return self._score(self._scorer, rows)

    @torch.no_grad()
    def _score(self, scorer: TokenScorer, rows: list[Row]) -> dict[int, Tensor]:
        """Return the (T,) log-probabilities of each completion, by its index in the batch."""
        scores: dict[int, Tensor] = {}
        for group in self._micro_batches(rows):
            micro = self._collate(group)
            with self._precision():
                flat, _ = scorer(micro)
            if group[0] is not _IDLE:
                parts = torch.split(flat, list(micro.lengths))
                scores.update(zip(micro.members, parts, strict=True))
        return scores

    def _micro_batches(self, rows: Sequence[Row]) -> list[list[Row]]:
        groups = list(micro_batches(rows, self._budget))
        if self.config.shard:  # each forward pass is a common effort
            (most,) = parallel.largest([len(groups)], self.model.device)
            groups += [[_IDLE]] * (int(most) - len(groups))
        return groups

    def _collate(self, rows: Sequence[Row]) -> MicroBatch:
        return collate(rows, self.model.device, self._dtype)

    def _total(self, *values: float) -> list[float]:
        return parallel.summed(values, self.model.device)

    def _precision(self) -> AbstractContextManager[None]:
        if not self.config.bf16:
            return nullcontext()
        cast: AbstractContextManager[None] = torch.autocast(
            self.model.device.type, dtype=torch.bfloat16
        )
        return cast

    def _snapshot(self) -> tuple[list[Tensor], dict[str, Any]]:
        weights = [parameter.detach().clone() for parameter in self._parameters]
        return weights, copy.deepcopy(self._optimizer.state_dict())

    @torch.no_grad()
    def _restore(self, before: tuple[list[Tensor], dict[str, Any]]) -> None:
        for parameter, stored in zip(self._parameters, before[0], strict=True):
            parameter.copy_(stored)
        self._optimizer.load_state_dict(before[1])


def _out_of_memory(error: BaseException) -> bool:
    # The allocator for the CPU has no exception type of its own.
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
