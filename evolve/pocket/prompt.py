"""What the pocket model reads: a header, the numbered lines of a view, and nothing in words.

A prompt is, for rewards (0.71, 0.30, 0.98), the emphasis on the second and three answers wanted::

    r7r3r9w1m3
    1:def v0(v1, v2):
    2:    return v1 - v2
    <empty line>

The completion follows in the line form of :mod:`evolve.edits` and ends with the end token.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

#: Longest prompt, in tokens; longer programs are shown through a window.
MAX_PROMPT_TOKENS = 320
#: Answers that the model has learned to be asked for.
MAX_ANSWERS = 5


def weights_folder() -> Path:
    """Return the folder of the shipped model, in the layout of transformers."""
    return Path(__file__).parent / "weights"


@cache
def tokenizer() -> Tokenizer:
    """Return the shipped tokenizer."""
    return Tokenizer.from_file(str(weights_folder() / "tokenizer.json"))


def header(rewards: Sequence[float], weights: Sequence[float], answers: int) -> str:
    """Return the first line of a prompt.

    Args:
        rewards: (k,) the parent's rewards in [0, 1], shown in ten steps.
        weights: (k,) the drawn weights; the largest names the emphasised dimension.
        answers: Number of answers wanted, 1 to 9.
    """
    if not 1 <= answers <= 9:
        raise ValueError(f"answers is {answers}, allowed: 1 to 9")
    steps = [min(9, max(0, int(10 * reward))) for reward in rewards]
    emphasis = max(range(len(weights)), key=weights.__getitem__)
    return "".join(f"r{step}" for step in steps) + f"w{emphasis}m{answers}"


def render(
    lines: Sequence[str],
    rewards: Sequence[float],
    weights: Sequence[float],
    answers: int,
    rng: np.random.Generator,
    *,
    max_tokens: int = MAX_PROMPT_TOKENS,
    encoder: Tokenizer | None = None,
) -> str:
    """Return a prompt of at most ``max_tokens`` tokens.

    A view that is too long is shown through a window of whole lines, placed at random; the lines
    keep their true numbers.

    Args:
        lines: Lines of the canonical view.
        rewards: (k,) in [0, 1].
        weights: (k,), non-negative.
        answers: Number of answers wanted.
        rng: Places the window; not drawn from if everything fits.
        max_tokens: Longest prompt.
        encoder: Another tokenizer than the shipped one.
    """
    encoder = encoder or tokenizer()
    first = header(rewards, weights, answers)
    shown = [f"\n{number}:{line}" for number, line in enumerate(lines, start=1)]
    # Tokens never reach over the start of a numbered line, so lengths add up.
    lengths = [len(encoding.ids) for encoding in encoder.encode_batch(shown)]
    room = max_tokens - len(encoder.encode(first).ids) - 1
    start, end = _window(lengths, room, rng)
    return first + "".join(shown[start:end]) + "\n"


def _window(lengths: Sequence[int], room: int, rng: np.random.Generator) -> tuple[int, int]:
    """Return a random longest run of lines that fits; the room goes to its end where it stops."""
    total = sum(lengths)
    if total <= room:
        return 0, len(lengths)
    start = int(rng.integers(len(lengths)))
    end, used = start, 0
    while end < len(lengths) and used + lengths[end] <= room:
        used += lengths[end]
        end += 1
    while start > 0 and used + lengths[start - 1] <= room:
        start -= 1
        used += lengths[start]
    return start, end
