"""From advantages of rollouts and answers to one advantage for each token."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from vpo.advantages import Advantages
from vpo.sets import Floats

#: Token indices [start, end) of one answer in its completion.
Span = tuple[int, int]


def token_advantages(
    result: Advantages,
    spans: Sequence[Sequence[Span]],
    lengths: Sequence[int] | npt.NDArray[np.integer],
) -> Floats:
    """Return the (n, T) advantages of the completion tokens, 0 beyond each completion's end.

    What stands before answer j, or between j - 1 and j, leads to answer j and shares its credit;
    what follows the last answer could have become another one and is credited for having been
    none. With credit ``"loo"``, where answers are drawn independently, tokens outside every answer
    carry the advantage of the rollout.

    Args:
        result: What :func:`vpo.advantages.compute_advantages` returned.
        spans: For each rollout the spans of its m_i answers, in order and without overlap.
        lengths: (n,) numbers of completion tokens; T is the largest.

    Raises:
        ValueError: If the spans of a rollout do not fit its answers or its length.
    """
    n = len(result.advantages)
    if len(spans) != n or len(lengths) != n:
        raise ValueError(f"{len(spans)} spans and {len(lengths)} lengths for {n} rollouts")
    table = np.zeros((n, max((int(length) for length in lengths), default=0)))
    for i, (answers, length) in enumerate(zip(spans, lengths, strict=True)):
        _check(i, answers, int(length), int(result.n_answers[i]))
        position = np.arange(int(length))
        starts = np.array([start for start, _ in answers], dtype=np.intp)
        ends = np.array([end for _, end in answers], dtype=np.intp)
        # Number of answers that have ended: the index of the answer under way.
        current = np.searchsorted(ends, position, side="right")
        row = result.answer_advantages[i, current]
        if result.credit == "loo":
            inside = np.searchsorted(starts, position, side="right") > current
            row = np.where(inside, row, result.advantages[i])
        table[i, : int(length)] = row
    return table


def _check(i: int, answers: Sequence[Span], length: int, expected: int) -> None:
    if len(answers) != expected:
        raise ValueError(f"spans[{i}]: {len(answers)} spans, the rollout has {expected} answers")
    edges = [0, *(edge for span in answers for edge in span), length]
    if any(later < earlier for earlier, later in pairwise(edges)):
        raise ValueError(
            f"spans[{i}]: {list(answers)} must ascend without overlap within {length} tokens"
        )
