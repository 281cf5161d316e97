"""How a policy is updated: the settings of :class:`vpo.trainer.Trainer`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vpo.losses import Aggregation, Clip, Objective


@dataclass(frozen=True)
class Importance:
    """Correction for an engine that samples from other probabilities than the trainer computes.

    The ratio of the objective then refers to the trainer's log-probabilities before the update, and
    the loss is weighted by q = exp(trainer - engine), see :func:`vpo.losses.importance_weights`.
    """

    level: Literal["token", "sequence"] = "token"
    action: Literal["truncate", "mask"] = "truncate"
    bound: float = 2.0


@dataclass(frozen=True)
class TrainerConfig:
    """How to update.

    Attributes:
        learning_rate: Of AdamW; usual are 1e-6 for full weights and 1e-5 for LoRA, a model of a few
            million parameters takes 1e-4 and more.
        weight_decay: Of AdamW.
        grad_clip: Largest norm of the gradient.
        objective: See :mod:`vpo.losses`.
        clip: Range of the importance ratio.
        aggregation: How token losses are averaged.
        max_length: Longest completion allowed; the constant of ``aggregation="constant"``.
        importance: Correction for the engine, or None to take its log-probabilities as they are.
        kl_coef: Weight of the KL to the initial policy.
        entropy_coef: Weight of the entropy, which is maximised.
        temperature: That of the sampling.
        epochs: Passes over the batch.
        minibatches: Optimiser steps in a pass.
        token_budget: Padded tokens of a micro-batch; memory grows with it, results do not change.
        max_step_kl: Largest mean KL in nats per token from the behaviour policy to the updated one,
            measured after the update; None to allow any.
        gradient_checkpointing: Recompute activations in the backward pass.
        shard: Split weights, gradients and optimiser state over the processes (FSDP2).
        bf16: Compute in bfloat16; log-probabilities, losses and sums stay in float32.
    """

    learning_rate: float = 1e-5
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    objective: Objective = "ppo"
    clip: Clip = field(default_factory=Clip)
    aggregation: Aggregation = "token_mean"
    max_length: int = 0
    importance: Importance | None = None
    kl_coef: float = 1e-3
    entropy_coef: float = 0.0
    temperature: float = 1.0
    epochs: int = 1
    minibatches: int = 1
    token_budget: int = 8192
    max_step_kl: float | None = 0.1
    gradient_checkpointing: bool = False
    shard: bool = False
    bf16: bool = False

    def __post_init__(self) -> None:
        for name in ("learning_rate", "grad_clip", "temperature", "epochs", "minibatches"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, a positive number is needed")
        if self.aggregation == "constant" and self.max_length < 1:
            raise ValueError('aggregation "constant" needs max_length, the longest completion')
