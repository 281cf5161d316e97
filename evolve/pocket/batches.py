"""From text to tensors: a prompt and all its completions in one row, each token computed once.

A row is the prompt followed by its completions. A completion sees the prompt and itself, not the
others, and its positions go on from the prompt's, so a row costs far less than one row for each
completion and means the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

# Matrix products prepare, and keep, a plan for each shape they meet: without rounding the process
# grew by a gigabyte every three minutes.
_WIDTH_STEP = 32
_TARGET_STEP = 512


class Row(NamedTuple):
    """Token ids of a prompt and of its completions, end tokens included."""

    prompt: list[int]
    completions: list[list[int]]

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self.prompt) + sum(map(len, self.completions))

    @property
    def width(self) -> int:
        """Number of tokens, rounded up."""
        return -(-self.length // _WIDTH_STEP) * _WIDTH_STEP


class Batch(NamedTuple):
    """Rows padded to one length T.

    Attributes:
        ids: (B, T) token ids.
        positions: (B, T) position ids.
        mask: (B, 1, T, T) bool, True where a token (row) sees another (column).
        source: (N,) index into the flattened (B * T) tokens of what predicts a target.
        target: (N,) token ids.
        kind: (N,) 1 for a target in a prompt, 2 for one in a completion, 0 for padding.
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor
    source: Tensor
    target: Tensor
    kind: Tensor


def read_rows(path: Path, encoder: Tokenizer, eos_id: int) -> list[Row]:
    """Return the rows of one file of the corpus."""
    examples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    texts = [text for prompt, completions in examples for text in (prompt, *completions)]
    encoded = iter([encoding.ids for encoding in encoder.encode_batch(texts)])
    rows = []
    for _, completions in examples:
        prompt = next(encoded)
        rows.append(Row(prompt, [[*next(encoded), eos_id] for _ in completions]))
    return rows


def batches(
    rows: Sequence[Row], tokens: int, rng: np.random.Generator, pool: int = 1024
) -> Iterator[list[Row]]:
    """Yield all rows in random order, those of one batch being about equally long.

    Args:
        rows: The rows.
        tokens: Most tokens of a batch, padding included.
        rng: Source of the order.
        pool: Rows sorted by length together.
    """
    order = rng.permutation(len(rows))
    for first in range(0, len(order), pool):
        part = sorted((rows[i] for i in order[first : first + pool]), key=lambda row: row.length)
        made: list[list[Row]] = [[]]
        for row in part:
            if (len(made[-1]) + 1) * row.width > tokens and made[-1]:
                made.append([])
            made[-1].append(row)
        for index in rng.permutation(len(made)):
            yield made[index]


def collate(rows: Sequence[Row], pad_id: int) -> Batch:
    """Return the tensors of a batch."""
    size, width = len(rows), max(row.width for row in rows)
    ids = torch.full((size, width), pad_id)
    positions = torch.zeros(size, width, dtype=torch.long)
    # Part 0 is the prompt, 1, 2, ... are completions, -1 is padding, which sees itself alone.
    part = torch.full((size, width), -1)
    source: list[int] = []
    target: list[int] = []
    kind: list[int] = []
    for index, row in enumerate(rows):
        base, head = index * width, len(row.prompt)
        at = 0
        for number, tokens in enumerate((row.prompt, *row.completions)):
            end = at + len(tokens)
            ids[index, at:end] = torch.tensor(tokens)
            start = head if number else 0
            positions[index, at:end] = torch.arange(start, start + len(tokens))
            part[index, at:end] = number
            before = [at - 1] if at == 0 or number == 0 else [head - 1]
            before += range(at, end - 1)
            skip = 0 if number else 1  # nothing predicts the first token of a prompt
            source += [base + b for b in before[skip:]]
            target += tokens[skip:]
            kind += [2 if number else 1] * (len(tokens) - skip)
            at = end
    filler = -len(source) % _TARGET_STEP
    source += [0] * filler
    target += [pad_id] * filler
    kind += [0] * filler
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    same = part[:, :, None] == part[:, None, :]
    mask = causal & (same | (part[:, None, :] == 0))
    return Batch(
        ids,
        positions,
        mask[:, None],
        torch.tensor(source),
        torch.tensor(target),
        torch.tensor(kind),
    )
