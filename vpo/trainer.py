"""The update of a policy from its own rollouts: a small loop, no framework.

One update: advantages from the caller; log-probabilities in micro-batches of a token budget; the
clipped objective on the stored behaviour log-probabilities, averaged over the global batch; k3 KL
to the initial policy; AdamW. An update that is not finite or moves the policy too far is undone.
Rollouts of groups without signal (all advantages 0) are left out, the averages are over the rest.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from peft import PeftModel
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from vpo.batch import Batch, padded, with_signal
from vpo.decoding import attends_to_everything
from vpo.losses import aggregate, importance_weights, kl_loss, policy_loss
from vpo.model import Model, base_of
from vpo.packing import Costs, Row, collate, make_rows, micro_batches
from vpo.rollouts import Rollout
from vpo.scoring import TokenScorer
from vpo.settings import Importance, TrainerConfig
from vpo.tally import Tally, UpdateStats

__all__ = ["Importance", "Trainer", "TrainerConfig", "UpdateRefusedError", "UpdateStats"]

#: Tokens of completions on which the size of a step is measured after it.
GUARD_TOKENS = 8192


class UpdateRefusedError(RuntimeError):
    """An update went wrong and must be undone; the message says how."""


class Trainer:
    """Holds the trained model, its optimiser and its version number."""

    def __init__(self, model: Model, config: TrainerConfig, *, seed: int = 0) -> None:
        """Take over ``model``: its trainable parameters, and its dropout, which is switched off.

        Args:
            model: With LoRA the initial policy is the model without its adapter; with full
                weights a frozen copy is kept if ``config.kl_coef`` is positive.
            config: How to update.
            seed: Of the order of mini-batches.
        """
        self.model = model
        self.config = config
        self.version = 0
        self._rng = np.random.default_rng(seed)
        _switch_dropout_off(model)
        base: Any = base_of(model)
        if config.gradient_checkpointing:
            # Renamed in transformers 5.24.
            name = "activation_checkpointing_enable"
            enable = getattr(base, name, None) or base.gradient_checkpointing_enable
            enable({"use_reentrant": False})
        self._scorer = TokenScorer(model, config.temperature)
        self._reference: TokenScorer | None = None
        if config.kl_coef > 0 and not isinstance(model, PeftModel):
            frozen = copy.deepcopy(model).requires_grad_(False)
            self._reference = TokenScorer(frozen, config.temperature)
        self._shared = attends_to_everything(base)
        self._costs = Costs.of(base)
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
            rollouts: B of them, sampled by this or a recent version.
            advantages: (B,) one for each rollout, or (B, T) one for each token, T the longest
                completion.

        Raises:
            ValueError: If the advantages do not fit the rollouts or are not finite.
        """
        started = time.perf_counter()
        batch, skipped = with_signal(rollouts, advantages)
        tally = Tally()
        if not batch.rollouts:
            return self._stats(tally, "no group has signal", batch, skipped, started, math.nan)
        rows = self._rows(batch.rollouts)
        batch.put(self.model.device)
        before = self._snapshot()
        self.model.train()
        step_kl, reason = math.nan, ""
        try:
            if self.config.importance is not None:
                batch.trainer = self._score(self._scorer, rows)
            if self.config.kl_coef > 0:
                batch.reference = self._reference_scores(rows)
            for _ in range(self.config.epochs):
                for part in self._split(rows):
                    self._step(part, batch, tally)
            step_kl = self._step_kl(rows, batch)
        except UpdateRefusedError as error:
            self._restore(before)
            reason = str(error)
        finally:
            self.model.train(False)
            self._optimizer.zero_grad(set_to_none=True)
        if not reason:
            self.version += 1
        return self._stats(tally, reason, batch, skipped, started, step_kl)

    def state_dict(self) -> dict[str, Any]:
        """Return all that an exact continuation needs, as tensors and plain data."""
        trained = {n: p.detach() for n, p in self.model.named_parameters() if p.requires_grad}
        return {
            "version": self.version,
            "rng": self._rng.bit_generator.state,
            "weights": trained,
            "optimizer": self._optimizer.state_dict(),
        }

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
                parameter.copy_(state["weights"][name])
        self._optimizer.load_state_dict(state["optimizer"])
        self._rng.bit_generator.state = state["rng"]
        self.version = state["version"]

    def _rows(self, rollouts: Sequence[Rollout]) -> list[Row]:
        return make_rows(
            [rollout.prompt_ids for rollout in rollouts],
            [rollout.completion_ids for rollout in rollouts],
            shared=self._shared,
            costs=self._costs,
            budget=self.config.token_budget,
        )

    def _split(self, rows: list[Row]) -> list[list[Row]]:
        """Return the mini-batches of a pass, each sorted by length."""
        if self.config.minibatches == 1:
            return [rows]
        order = self._rng.permutation(len(rows))
        parts = np.array_split(order, min(self.config.minibatches, len(rows)))
        return [[rows[index] for index in sorted(part)] for part in parts]

    def _step(self, rows: list[Row], batch: Batch, tally: Tally) -> None:
        """Take one optimiser step.

        Raises:
            UpdateRefusedError: If the gradient is not finite.
        """
        members = [member for row in rows for member in row.members]
        tokens = sum(len(batch.rollouts[member].completion_ids) for member in members)
        self._optimizer.zero_grad(set_to_none=True)
        for group in micro_batches(rows, self.config.token_budget):
            loss = self._loss(group, batch, tokens, len(members), tally)
            torch.autograd.backward(loss)
        norm = float(nn.utils.clip_grad_norm_(self._parameters, self.config.grad_clip))
        tally.grad_norm = max(tally.grad_norm, norm)
        tally.steps += 1
        if not math.isfinite(norm):
            raise UpdateRefusedError("the gradient is not finite")
        self._optimizer.step()

    def _loss(
        self, rows: Sequence[Row], batch: Batch, tokens: int, sequences: int, tally: Tally
    ) -> Tensor:
        config, micro = self.config, self._collate(rows)
        with self._precision():
            flat, flat_entropy = self._scorer(micro)
        logprobs, mask = padded(flat, micro.lengths)
        entropy, _ = padded(flat_entropy, micro.lengths)
        members = micro.members
        engine = pad_sequence([batch.behaviour[i] for i in members], batch_first=True)
        advantages = pad_sequence([batch.advantages[i] for i in members], batch_first=True)
        # Engines return NaN now and then: such a token counts as sampled by the present policy.
        old = torch.where(engine.isnan(), logprobs.detach(), engine)
        weights = torch.ones_like(old)
        if config.importance is not None:
            old = pad_sequence([batch.trainer[i] for i in members], batch_first=True)
            rule = config.importance
            weights = importance_weights(
                old, engine, mask, level=rule.level, action=rule.action, bound=rule.bound
            )
        policy = policy_loss(config.objective, logprobs, old, advantages, mask, config.clip)
        loss = policy.loss * weights
        kl = torch.zeros_like(loss)
        if config.kl_coef > 0:
            reference = pad_sequence([batch.reference[i] for i in members], batch_first=True)
            kl = kl_loss(logprobs, reference, policy.ratio)
            loss = loss + config.kl_coef * kl
        if config.entropy_coef:
            loss = loss - config.entropy_coef * entropy
        total = aggregate(
            loss,
            mask,
            config.aggregation,
            tokens=tokens,
            sequences=sequences,
            max_length=config.max_length,
        )
        tally.add(total, policy, mask, kl=kl, entropy=entropy, weights=weights)
        return total

    def _step_kl(self, rows: list[Row], batch: Batch) -> float:
        """Return the mean KL from the behaviour policy to the present one, on some of the rows.

        Raises:
            UpdateRefusedError: If it is not finite or larger than allowed.
        """
        tokens = sum(len(completion) for row in rows for completion in row.completions)
        some = rows[:: math.ceil(tokens / GUARD_TOKENS)]
        scores = self._score(self._scorer, some)
        members = [member for row in some for member in row.members]
        new = torch.cat([scores[i] for i in members])
        gaps = torch.nan_to_num(new - torch.cat([batch.behaviour[i] for i in members]), nan=0.0)
        # E_old[rho - 1 - log rho] = KL(old || new).
        kl = float((torch.expm1(gaps) - gaps).mean())
        limit = self.config.max_step_kl
        if not torch.isfinite(new).all():
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
        for group in micro_batches(rows, self.config.token_budget):
            micro = self._collate(group)
            with self._precision():
                flat, _ = scorer(micro)
            scores.update(zip(micro.members, torch.split(flat, list(micro.lengths)), strict=True))
        return scores

    def _collate(self, rows: Sequence[Row]) -> Any:
        return collate(rows, self.model.device, base_of(self.model).dtype)

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

    def _stats(
        self,
        tally: Tally,
        reason: str,
        batch: Batch,
        skipped: int,
        started: float,
        step_kl: float,
    ) -> UpdateStats:
        return UpdateStats(
            accepted=not reason,
            reason=reason,
            version=self.version,
            step_kl=step_kl,
            rollouts=len(batch.rollouts),
            skipped_groups=skipped,
            seconds=time.perf_counter() - started,
            **tally.means(),
        )


def _switch_dropout_off(model: nn.Module) -> None:
    # Ratios compare log-probabilities of two passes: they must not differ by chance.
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if getattr(module, "attention_dropout", None):
            module.attention_dropout = 0.0  # type: ignore[assignment]
