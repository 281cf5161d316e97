"""Training batches in which the completions of a prompt share one copy of it.

A row is a prompt followed by some of its completions. Each token attends to the prompt and to what
its own completion says before it, at the positions that these have in the plain sequence; so every
log-probability is that of the plain sequence, and a prompt of 200 tokens with 8 completions of 60
is 672 tokens to compute, not 2,080.

Models that do not attend to everything get one completion a row and the plain causal mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

Ids = Sequence[int]


@dataclass(frozen=True)
class Row:
    """A prompt and some of its completions.

    Attributes:
        prompt: Token ids.
        completions: Token ids of each.
        members: Index of each completion in the batch.
    """

    prompt: Ids
    completions: tuple[Ids, ...]
    members: tuple[int, ...]

    def __len__(self) -> int:
        # Nothing is predicted from a completion's last token, so it is left out.
        return len(self.prompt) + sum(len(completion) - 1 for completion in self.completions)


@dataclass(frozen=True)
class MicroBatch:
    """Rows padded to one length, and where their predictions stand.

    Attributes:
        ids: (R, L) token ids.
        positions: (R, L) position of each in its plain sequence.
        mask: (R, 1, L, L) additive, or (R, L) of zeros and ones for one completion a row.
        sources: (N,) flat index in (R, L) of the token that predicts each completion token.
        targets: (N,) the predicted token ids.
        members: Index in the batch of each completion, in the order of ``targets``.
        lengths: Number of tokens of each.
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor
    sources: Tensor
    targets: Tensor
    members: tuple[int, ...]
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Costs:
    """Relative cost of a forward pass: a token's matrix products, and a pair of attention."""

    token: float
    pair: float

    @classmethod
    def of(cls, model: PreTrainedModel) -> Costs:
        """Return the multiply-adds of a model's layers."""
        config, lookup = model.config, model.get_input_embeddings()
        embeddings = sum(parameter.numel() for parameter in lookup.parameters())
        weights = sum(parameter.numel() for parameter in model.parameters()) - embeddings
        return cls(token=weights, pair=2 * config.num_hidden_layers * config.hidden_size)


def make_rows(
    prompts: Sequence[Ids],
    completions: Sequence[Ids],
    members: Sequence[int] | None = None,
    *,
    shared: bool,
    costs: Costs,
    budget: int,
) -> list[Row]:
    """Return rows that cover the batch, sorted by length.

    Args:
        prompts: Of each rollout; equal ones are shared.
        completions: Of each rollout, none empty.
        members: Their indices in the batch; by default 0, 1, 2, ...
        shared: Whether a row may hold several completions.
        costs: Decides how many: more of them save prompt tokens and cost attention.
        budget: Tokens that a row should not exceed.
    """
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for index, prompt in enumerate(prompts):
        by_prompt.setdefault(tuple(prompt), []).append(index)
    rows = []
    for prompt, group in by_prompt.items():
        # Neighbours in length, so that the choice of a number for all rows of a prompt is fair.
        group.sort(key=lambda index: len(completions[index]))
        longest = len(completions[group[-1]])
        together = _together(len(prompt), longest, len(group), costs, budget) if shared else 1
        for first in range(0, len(group), together):
            some = group[first : first + together]
            names = some if members is None else [members[index] for index in some]
            rows.append(Row(prompt, tuple(completions[index] for index in some), tuple(names)))
    return sorted(rows, key=len)


def micro_batches(rows: Sequence[Row], budget: int) -> Iterator[list[Row]]:
    """Yield rows, sorted by length, in groups whose padded size is at most ``budget`` tokens."""
    group: list[Row] = []
    for row in rows:
        if group and max(len(row), len(group[-1])) * (len(group) + 1) > budget:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def collate(rows: Sequence[Row], device: torch.device, dtype: torch.dtype) -> MicroBatch:
    """Return the tensors of a micro-batch; ``dtype`` is that of the additive mask."""
    width = max(len(row) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    positions = torch.zeros(len(rows), width, dtype=torch.long)
    # Segment 0 is the prompt, 1, 2, ... its completions, -1 padding.
    segments = torch.full((len(rows), width), -1)
    sources: list[Tensor] = []
    targets: list[Tensor] = []
    for index, row in enumerate(rows):
        at = len(row.prompt)
        ids[index, :at] = torch.tensor(row.prompt)
        positions[index, :at] = torch.arange(at)
        segments[index, :at] = 0
        for number, completion in enumerate(row.completions, 1):
            tokens, count = torch.tensor(completion), len(completion)
            part = slice(at, at + count - 1)
            ids[index, part] = tokens[:-1]
            positions[index, part] = len(row.prompt) + torch.arange(count - 1)
            segments[index, part] = number
            source = torch.arange(at - 1, at - 1 + count)
            source[0] = len(row.prompt) - 1
            sources.append(index * width + source)
            targets.append(tokens)
            at += count - 1
    plain = all(len(row.completions) == 1 for row in rows)
    mask = (segments >= 0).long() if plain else _tree_mask(segments, dtype)
    return MicroBatch(
        ids=ids.to(device),
        positions=positions.to(device),
        mask=mask.to(device),
        sources=torch.cat(sources).to(device),
        targets=torch.cat(targets).to(device),
        members=tuple(member for row in rows for member in row.members),
        lengths=tuple(len(completion) for row in rows for completion in row.completions),
    )


def _tree_mask(segments: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the (R, 1, L, L) additive mask: earlier tokens of the prompt and of one's own."""
    width = segments.shape[1]
    to, from_ = segments[:, None, :], segments[:, :, None]
    earlier = torch.ones(width, width, dtype=torch.bool).tril()
    # Padding sees itself: a row of the softmax without any entry would be NaN.
    seen = earlier & ((to == 0) & (from_ >= 0) | (to == from_))
    mask = torch.zeros(seen.shape, dtype=dtype)
    return mask.masked_fill_(~seen, torch.finfo(dtype).min)[:, None]


def _together(prompt: int, completion: int, n: int, costs: Costs, budget: int) -> int:
    def cost(count: int) -> float:
        size = prompt + count * completion
        return (costs.token * size + costs.pair * size * size) / count

    fitting = [count for count in range(1, n + 1) if prompt + count * completion <= budget] or [1]
    return min(fitting, key=cost)
