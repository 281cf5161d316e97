"""What a training batch is made of: completions with their behaviour log-probs and rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Rollout:
    """One completion, as sampled and as judged.

    Attributes:
        prompt_ids: Token ids of the prompt, at least one.
        completion_ids: Token ids of the T sampled tokens, the end token included when it was
            sampled.
        behaviour_logprobs: (T,) log-probability of each sampled token under the policy that
            sampled it, at its temperature.
        rewards: (m, k) reward vectors of the m answers; a missing answer is a row of zeros.
        answer_spans: Half-open token span in the completion of each answer, in order.
        group: Rollouts of one prompt carry the same number.
        version: Policy version that sampled it.
        reference: (p, k) rewards to improve upon (the parents in the prompt), or None.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    behaviour_logprobs: Floats
    rewards: Floats
    answer_spans: Sequence[tuple[int, int]] = ()
    group: int = 0
    version: int = 0
    reference: Floats | None = None

    def __post_init__(self) -> None:
        tokens = len(self.completion_ids)
        if not len(self.prompt_ids):
            raise ValueError("a rollout needs a prompt of at least one token")
        if np.shape(self.behaviour_logprobs) != (tokens,):
            raise ValueError(
                f"behaviour_logprobs has shape {np.shape(self.behaviour_logprobs)}, "
                f"completion_ids has {tokens} tokens: one log-probability a token is needed"
            )
        for start, stop in self.answer_spans:
            if not 0 <= start <= stop <= tokens:
                raise ValueError(
                    f"answer span ({start}, {stop}) lies outside a completion of {tokens} tokens"
                )
