"""What an update minimises, on one micro-batch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from vpo.batch import Batch, padded
from vpo.losses import aggregate, importance_weights, kl_loss, policy_loss
from vpo.packing import MicroBatch
from vpo.settings import TrainerConfig
from vpo.tally import Tally


def objective(
    config: TrainerConfig,
    micro: MicroBatch,
    scores: tuple[Tensor, Tensor],
    batch: Batch,
    *,
    tokens: float,
    sequences: float,
    tally: Tally,
) -> Tensor:
    """Return a micro-batch's part of the loss, policy, KL and entropy terms together.

    Args:
        config: Which terms.
        micro: The completions.
        scores: Log-probability and entropy of each of their tokens, differentiable.
        batch: Advantages and the stored log-probabilities.
        tokens: Tokens of the global mini-batch.
        sequences: Completions of the global mini-batch.
        tally: Takes note.
    """
    members = micro.members
    logprobs, mask = padded(scores[0], micro.lengths)
    entropy, _ = padded(scores[1], micro.lengths)
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
