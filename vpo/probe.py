"""Does the engine hold the trainer's weights? Compared on log-probabilities, never assumed.

Hot-swapping weights fails silently more often than loudly: a cache keyed by an old name, a tied
head left behind, a load that returns without effect. So after every swap both sides score the same
few sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

Floats = npt.NDArray[np.floating]

#: Scores sequences of token ids: for one of length L, the (L - 1,) log-probabilities of its second
#: to last token, given those before, at temperature 1.
Scorer = Callable[[Sequence[Sequence[int]]], list[Floats]]

#: Allowed gap in nats: rounding between float32 kernels stays below, any training step above.
FLOAT32_TOLERANCE = 1e-3
#: The same for engines in bfloat16.
BFLOAT16_TOLERANCE = 5e-2


class WeightsMismatchError(RuntimeError):
    """An engine does not compute what the trainer's weights say."""


def model_scorer(model: nn.Module) -> Scorer:
    """Return the scorer of a transformers or peft model."""

    @torch.inference_mode()
    def score(sequences: Sequence[Sequence[int]]) -> list[Floats]:
        device = next(model.parameters()).device
        training = model.training
        model.train(False)
        scores: list[Floats] = []
        for sequence in sequences:
            ids = torch.tensor([list(sequence)], device=device)
            logits = model(input_ids=ids).logits[0, :-1].float()
            chosen = torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0]
            scores.append(chosen.cpu().numpy())
        model.train(training)
        return scores

    return score


def largest_gap(one: Scorer, other: Scorer, sequences: Sequence[Sequence[int]]) -> float:
    """Return the largest absolute difference of log-probabilities, inf if one is not finite.

    Raises:
        ValueError: If no sequence has two tokens.
    """
    if not any(len(sequence) > 1 for sequence in sequences):
        raise ValueError("the probe needs a sequence of at least two tokens")
    pairs = zip(one(sequences), other(sequences), strict=True)
    gaps = np.concatenate([np.abs(a - b) for a, b in pairs])
    return float(gaps.max()) if np.isfinite(gaps).all() else float("inf")


def check_weights(
    engine: Scorer,
    trainer: Scorer,
    sequences: Sequence[Sequence[int]],
    *,
    tolerance: float = FLOAT32_TOLERANCE,
) -> float:
    """Return the largest gap between engine and trainer.

    Args:
        engine: What samples.
        trainer: What was trained.
        sequences: A few prompts with completions, from the task at hand.
        tolerance: In nats. Too generous a value passes a stale engine: compare the gap to what
            one update changes.

    Raises:
        WeightsMismatchError: If the gap is larger than the tolerance.
    """
    gap = largest_gap(engine, trainer, sequences)
    if gap > tolerance:
        raise WeightsMismatchError(
            f"the engine's log-probabilities differ from the trainer's by {gap:.2g} nats "
            f"(allowed: {tolerance:g}); it does not hold the trained weights"
        )
    return gap
