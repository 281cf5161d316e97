"""Log-probabilities and entropies of tokens in float32, a chunk of the output head at a time.

The logits of a batch are its largest tensor by far: 8 x 2,048 tokens over 152,000 words take 10 GB.
Here no more than one chunk of them exists at once, in the forward and in the backward pass, which
computes them again.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

#: Logits held at once: 16 M numbers, 64 MiB in float32.
CHUNK_LOGITS = 1 << 24

Head = Callable[[Tensor], Tensor]


def token_logprobs(
    hidden: Tensor,
    targets: Tensor,
    head: Head,
    vocabulary: int,
    *,
    temperature: float = 1.0,
    chunk_logits: int = CHUNK_LOGITS,
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of ``targets`` and entropies of softmax(head(hidden) / temperature).

    Args:
        hidden: (N, width) last hidden states, of the positions that predict ``targets``.
        targets: (N,) token ids.
        head: Maps (n, width) to (n, vocabulary) logits.
        vocabulary: Width of the head's output.
        temperature: Positive.
        chunk_logits: Upper bound for the logits held at once, at least one position.

    Returns:
        Two (N,) float32 tensors in nats, differentiable where gradients are on.
    """
    size = max(1, chunk_logits // vocabulary)
    logprobs, entropies = [], []
    for rows, ids in zip(torch.split(hidden, size), torch.split(targets, size), strict=True):
        if torch.is_grad_enabled():
            # One chunk needs no second computation: its logits fit by definition.
            if len(hidden) <= size:
                one, two = _chunk(rows, ids, head, temperature)
            else:
                one, two = checkpoint(_chunk, rows, ids, head, temperature, use_reentrant=False)
        else:
            one, two = _chunk(rows, ids, head, temperature)
        logprobs.append(one)
        entropies.append(two)
    if not logprobs:
        return hidden.new_zeros(0, dtype=torch.float32), hidden.new_zeros(0, dtype=torch.float32)
    return torch.cat(logprobs), torch.cat(entropies)


def _chunk(
    hidden: Tensor, targets: Tensor, head: Head, temperature: float
) -> tuple[Tensor, Tensor]:
    scores = torch.log_softmax(head(hidden).float() / temperature, dim=-1)
    entropy = -(scores.exp() * scores).sum(-1)
    return scores.gather(-1, targets[:, None])[:, 0], entropy
