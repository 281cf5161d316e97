"""The statistics of an update, and the sums over its tokens that they come from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypedDict

import torch
from torch import Tensor

from vpo import parallel
from vpo.losses import TokenLoss


@dataclass(frozen=True)
class UpdateStats:
    """What an update did; means are over the completion tokens it trained on.

    Attributes:
        accepted: Whether the weights changed; otherwise they are as before.
        reason: Why not, empty if accepted.
        version: Of the policy afterwards.
        loss: The objective that was minimised, KL and entropy terms included.
        kl: Mean KL to the initial policy, nats per token; 0 if ``kl_coef`` is.
        step_kl: Mean KL from the behaviour policy to the updated one, nats per token.
        entropy: Mean entropy of the policy before each step, nats.
        clip_fraction: Share of tokens whose gradient the clip stopped.
        ratio_mean: Mean importance ratio.
        ratio_max: Largest one.
        effective_samples: (sum ratio)^2 / (tokens * sum ratio^2), in (0, 1].
        weight_mean: Mean of the weights of the engine correction, 1 without it.
        weight_zero_fraction: Share of tokens that it masks.
        grad_norm: Largest norm of the gradient before clipping, over the optimiser steps.
        tokens: Completion tokens trained on, all passes.
        rollouts: Rollouts trained on.
        skipped_groups: Groups without signal.
        token_budget: Of a micro-batch; halved when memory ran out.
        seconds: Wall-clock time.
    """

    accepted: bool
    reason: str
    version: int
    loss: float
    kl: float
    step_kl: float
    entropy: float
    clip_fraction: float
    ratio_mean: float
    ratio_max: float
    effective_samples: float
    weight_mean: float
    weight_zero_fraction: float
    grad_norm: float
    tokens: int
    rollouts: int
    skipped_groups: int
    token_budget: int
    seconds: float


class Means(TypedDict):
    """The fields of :class:`UpdateStats` that are means over tokens."""

    loss: float
    kl: float
    entropy: float
    clip_fraction: float
    ratio_mean: float
    ratio_max: float
    effective_samples: float
    weight_mean: float
    weight_zero_fraction: float
    grad_norm: float
    tokens: int


_SUMS = ("loss", "tokens", "kl", "entropy", "clipped", "ratio", "square", "weight", "zero")


@dataclass
class Tally:
    """Sums so far, over this process's tokens until :meth:`gather`."""

    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0.0))
    steps: int = 0
    ratio_max: float = 0.0
    grad_norm: float = 0.0

    @torch.no_grad()
    def add(
        self,
        loss: Tensor,
        policy: TokenLoss,
        mask: Tensor,
        *,
        kl: Tensor,
        entropy: Tensor,
        weights: Tensor,
    ) -> None:
        """Add a micro-batch; all but ``loss`` are (B, T)."""
        ratio = policy.ratio
        parts = [torch.ones_like(ratio), kl, entropy, policy.clipped, ratio, ratio.square()]
        parts += [weights, weights == 0]
        totals = [(part * mask).sum() for part in parts]
        # One transfer from the device.
        *sums, peak = torch.stack([loss, *totals, (ratio * mask).max()]).double().tolist()
        for name, value in zip(_SUMS, sums, strict=True):
            self.sums[name] += value
        self.ratio_max = max(self.ratio_max, peak)

    def merge(self, other: Tally) -> None:
        """Add the sums of an optimiser step."""
        for name, value in other.sums.items():
            self.sums[name] += value
        self.steps += other.steps
        self.ratio_max = max(self.ratio_max, other.ratio_max)
        self.grad_norm = max(self.grad_norm, other.grad_norm)

    def gather(self, device: torch.device) -> None:
        """Add the sums of all processes up."""
        self.sums = dict(
            zip(self.sums, parallel.summed(list(self.sums.values()), device), strict=True)
        )
        (self.ratio_max,) = parallel.largest([self.ratio_max], device)

    def means(self) -> Means:
        """Return the means, NaN where nothing was added."""
        tokens = self.sums["tokens"]

        def mean(name: str) -> float:
            return self.sums[name] / tokens if tokens else math.nan

        square = self.sums["square"] * tokens
        return Means(
            loss=self.sums["loss"] / self.steps if self.steps else math.nan,
            kl=mean("kl"),
            entropy=mean("entropy"),
            clip_fraction=mean("clipped"),
            ratio_mean=mean("ratio"),
            ratio_max=self.ratio_max if tokens else math.nan,
            effective_samples=self.sums["ratio"] ** 2 / square if square else math.nan,
            weight_mean=mean("weight"),
            weight_zero_fraction=mean("zero"),
            grad_norm=self.grad_norm if self.steps else math.nan,
            tokens=int(tokens),
        )
