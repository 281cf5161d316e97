"""Policy-gradient losses on sampled tokens, and the ways to average them.

All functions take (B, T) tensors of a padded batch and a (B, T) mask of its real tokens. With
d = log pi(token) - log pi_old(token) and rho = exp(d):

- ``ppo``: max(-A rho, -A clip(rho, 1 - low, 1 + high)) (arXiv 1707.06347), and for A < 0 at most
  -A dual (arXiv 1912.09729).
- ``gspo``: the same with the geometric mean of rho over the sequence, in its token form
  sg[s] pi / sg[pi] (arXiv 2507.18071).
- ``cispo``: -sg[clip(rho)] A log pi (arXiv 2506.13585): clipped tokens keep a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Objective = Literal["ppo", "gspo", "cispo"]
Aggregation = Literal["token_mean", "sequence_mean", "constant"]

#: Log-ratios are clamped to this range before exp.
MAX_LOG_RATIO = 20.0


@dataclass(frozen=True)
class Clip:
    """Range of the importance ratio.

    Attributes:
        low: The ratio may fall to 1 - low.
        high: It may rise to 1 + high; more room above keeps rare tokens alive (arXiv 2503.14476).
        dual: Bound of the ratio where the advantage is negative, above 1; None for no bound.
    """

    low: float = 0.2
    high: float = 0.28
    dual: float | None = 3.0


@dataclass(frozen=True)
class TokenLoss:
    """What a loss says of each token; all (B, T).

    Attributes:
        loss: To be aggregated and minimised.
        ratio: Importance ratio, detached.
        clipped: Where the clip stops the gradient (in ``cispo``: where it bounds the weight).
    """

    loss: Tensor
    ratio: Tensor
    clipped: Tensor


def policy_loss(
    objective: Objective,
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip: Clip = Clip(),
) -> TokenLoss:
    """Return the loss of each token.

    Args:
        objective: Which loss, see the module.
        logprobs: (B, T), differentiable.
        old_logprobs: (B, T) under the policy that the ratio refers to.
        advantages: (B, T) or (B, 1), larger is better.
        mask: (B, T), true for real tokens.
        clip: Range of the ratio.
    """
    log_ratio = (logprobs - old_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if objective == "gspo":
        mean = (log_ratio * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp_min(1)
        log_ratio = mean.detach() + logprobs - logprobs.detach()
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1 - clip.low, 1 + clip.high)
    if objective == "cispo":
        loss = -bounded.detach() * advantages * logprobs
        return TokenLoss(loss, ratio.detach(), (bounded != ratio).detach() & mask.bool())
    free, held = -advantages * ratio, -advantages * bounded
    loss = torch.maximum(free, held)
    clipped = held > free
    if clip.dual is not None:
        cap = -advantages * clip.dual
        capped = (advantages < 0) & (cap < loss)
        loss = torch.where(capped, cap, loss)
        clipped = clipped | capped
    return TokenLoss(loss, ratio.detach(), clipped & mask.bool())


def kl_loss(logprobs: Tensor, reference_logprobs: Tensor, ratio: Tensor) -> Tensor:
    """Return an estimate of KL(pi || reference) of each token, with the gradient of the KL.

    The value is rho (exp(r) - 1 - r) with r = log reference - log pi: non-negative, of low variance
    (k3 in J. Schulman, "Approximating KL divergence", 2020), and rho accounts for samples from an
    older policy. Differentiating k3 alone does not estimate the gradient of the KL; rho (-r) times
    the gradient of log pi does, and is what the result carries.

    Args:
        logprobs: (B, T), differentiable.
        reference_logprobs: (B, T).
        ratio: (B, T) rho = pi / pi_old; its gradient is not used.
    """
    r = reference_logprobs - logprobs
    bounded = r.detach().clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    score = 0.5 * r.square()
    return ratio.detach() * (torch.expm1(bounded) - bounded + score - score.detach())


def importance_weights(
    trainer_logprobs: Tensor,
    engine_logprobs: Tensor,
    mask: Tensor,
    *,
    level: Literal["token", "sequence"] = "token",
    action: Literal["truncate", "mask"] = "truncate",
    bound: float = 2.0,
) -> Tensor:
    """Return (B, T) weights that correct for an engine which does not sample what it should.

    q = exp(trainer - engine), of each token or of the whole sequence; above ``bound`` it becomes
    ``bound`` or 0. An engine log-probability that is NaN gives q = 1. Without gradient.
    """
    gap = torch.nan_to_num(trainer_logprobs.detach() - engine_logprobs, nan=0.0) * mask
    if level == "sequence":
        gap = gap.sum(1, keepdim=True).expand_as(gap)
    q = gap.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    if action == "truncate":
        return q.clamp_max(bound)
    return torch.where(q > bound, torch.zeros_like(q), q)


def aggregate(
    values: Tensor,
    mask: Tensor,
    how: Aggregation,
    *,
    tokens: float,
    sequences: float,
    max_length: int,
) -> Tensor:
    """Return the contribution of a (micro-)batch to a mean over the global batch.

    Args:
        values: (B, T).
        mask: (B, T), true for real tokens.
        how: ``token_mean``: sum / tokens. ``sequence_mean``: mean over sequences of their token
            means. ``constant``: sum / (sequences * max_length), as in Dr. GRPO (arXiv 2503.20783).
        tokens: Real tokens of the global batch.
        sequences: Sequences of the global batch.
        max_length: The constant of ``constant``: the longest completion allowed.
    """
    total = (values * mask).sum(1)
    if how == "token_mean":
        return total.sum() / tokens
    if how == "sequence_mean":
        return (total / mask.sum(1).clamp_min(1)).sum() / sequences
    return total.sum() / (sequences * max_length)
