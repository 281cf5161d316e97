"""From text to tensors: a prompt and all its completions in one row, each token computed once.

A row is the prompt followed by its completions. A completion sees the prompt and itself, not the
others, and its positions go on from the prompt's, so a row costs far less than one row for each
completion and means the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
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
_NUMBERED = re.compile(r"\n\d{1,3}")
_CLOSING = re.compile(r"[)\]}]+:?")


class Row(NamedTuple):
    """Token ids of a prompt and of its completions, end tokens included.

    Attributes:
        prompt: Token ids.
        completions: Token ids of each.
        hard: For each completion, the positions of :func:`hard_tokens`.
    """

    prompt: list[int]
    completions: list[list[int]]
    hard: list[list[int]]

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
        kind: (N,) 1 for a target in a prompt, 2 for one in a completion, 3 for one of its hard
            tokens, 0 for padding.
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
    spelt = {index: encoder.decode([index]) for index in range(encoder.get_vocab_size())}
    rows = []
    for _, listed in examples:
        prompt = next(encoded)
        completions = [[*next(encoded), eos_id] for _ in listed]
        rows.append(Row(prompt, completions, hard_tokens(prompt, completions, spelt)))
    return rows


def hard_tokens(
    prompt: list[int], completions: Sequence[list[int]], spelt: Mapping[int, str]
) -> list[list[int]]:
    """Return, for each completion, the positions of the tokens that an imitator gets wrong.

    They are where a line that is written again first differs from the prompt's, which cannot be
    copied, and every closing bracket, which means counting the open ones.

    Args:
        prompt: Token ids.
        completions: Token ids of each.
        spelt: The text of each token.
    """
    starts = [at for at, token in enumerate(prompt) if _NUMBERED.fullmatch(spelt[token])]
    lines = {
        prompt[start]: prompt[start + 1 : end]
        for start, end in zip(starts, [*starts[1:], len(prompt) - 1], strict=True)
    }
    found = []
    for tokens in completions:
        places = [at for at, token in enumerate(tokens) if _CLOSING.fullmatch(spelt[token])]
        for start, token in enumerate(tokens[:-1]):
            sign = spelt[tokens[start + 1]]
            if token not in lines or not sign.startswith("="):
                continue
            old = lines[token]
            if sign[1:] != spelt[old[0]][1:]:
                places.append(start + 1)
                continue
            new = tokens[start + 2 :]
            pairs = enumerate(zip(old[1:], new, strict=False))
            same = next((n for n, (a, b) in pairs if a != b), min(len(old) - 1, len(new) - 1))
            places.append(start + 2 + same)
        found.append(sorted(set(places)))
    return found


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
            kinds = [2 if number else 1] * len(tokens)
            for place in row.hard[number - 1] if number else ():
                kinds[place] = 3
            kind += kinds[skip:]
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
