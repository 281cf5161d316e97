"""Step-by-step decoding of many completions, each prompt computed once for all its completions.

A decoder holds the keys and values; it draws nothing. :class:`SharedPromptDecoder` keeps one copy
of a prompt's keys and values for all completions of that prompt, which saves the memory traffic
that dominates small models. It goes through the attention hook of transformers, so the model's own
code runs. :class:`PlainDecoder` is for models that do not take that hook or do not attend to
everything (sliding windows, state-space layers); it uses the model's own cache.

Batch independence: in ``SharedPromptDecoder`` no operation mixes two prompts. Attention to a prompt
is computed prompt by prompt, and matrix products have at least :data:`MIN_ROWS` rows, since below
that BLAS libraries switch to kernels with another order of summation.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

#: Rows are padded to this number. MKL gives bit-equal rows from 16 on; measured for inner sizes
#: 192 to 1536.
MIN_ROWS = 16
_HOOK = "vpo_shared_prompt"


class Decoder(Protocol):
    """Next-token logits for a shrinking set of completions."""

    #: (rows, vocabulary) logits of the next token of each completion still held.
    logits: Tensor

    def step(self, tokens: Tensor) -> None:
        """Append ``tokens`` (rows,) and update ``logits``."""

    def keep(self, rows: Tensor) -> None:
        """Hold only ``rows``, ascending indices into the present ones."""


def open_decoder(model: PreTrainedModel, prompts: Sequence[Sequence[int]], n: int) -> Decoder:
    """Return a decoder for ``n`` completions of each prompt, rows ordered by prompt."""
    kind = SharedPromptDecoder if attends_to_everything(model) else PlainDecoder
    return kind(model, prompts, n)


class SharedPromptDecoder:
    """Decoding with one copy of each prompt's keys and values."""

    def __init__(self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], n: int) -> None:
        self._model = model
        self._lengths = [len(prompt) for prompt in prompts]
        caches, logits = [], []
        for prompt in prompts:
            output = model(
                torch.tensor([prompt], device=model.device), use_cache=True, logits_to_keep=1
            )
            caches.append([(layer.keys[0], layer.values[0]) for layer in _cache_of(output).layers])
            logits.append(output.logits[:, -1])
        self.logits = torch.cat(logits).repeat_interleave(n, dim=0)
        self._owner = torch.arange(len(prompts)).repeat_interleave(n)  # (rows,), on the CPU
        self._cache = _SharedPromptCache(caches)
        self._cache_argument: dict[str, Any] = {cache_argument(model): self._cache}
        self._lengths_of_row = torch.tensor(self._lengths).repeat_interleave(n)
        self._position = 0
        self._set_groups()

    def step(self, tokens: Tensor) -> None:
        """Append ``tokens`` (rows,) and update ``logits``."""
        rows = len(self._owner)
        padded = tokens.new_zeros(self._padded_rows(), 1)
        padded[:rows, 0] = tokens
        positions = torch.zeros(len(padded), 1, dtype=torch.long)
        positions[:rows, 0] = self._lengths_of_row + self._position
        with _attention(self._model, _HOOK):
            output = self._model(
                padded,
                position_ids=positions.to(tokens.device),
                use_cache=True,
                shared_prompt=self._cache,
                **self._cache_argument,
            )
        self.logits = output.logits[:rows, -1]
        self._position += 1

    def keep(self, rows: Tensor) -> None:
        """Hold only ``rows``, ascending indices into the present ones."""
        self._owner = self._owner[rows]
        self._lengths_of_row = self._lengths_of_row[rows]
        self.logits = self.logits[rows.to(self.logits.device)]
        fill = self._padded_rows() - len(rows)
        self._cache.keep(torch.cat([rows, rows.new_zeros(fill)]))
        self._set_groups()

    def _padded_rows(self) -> int:
        return max(MIN_ROWS, len(self._owner))

    def _set_groups(self) -> None:
        counts = torch.bincount(self._owner, minlength=len(self._lengths)).tolist()
        self._cache.groups, start = [], 0
        for prompt, count in enumerate(counts):
            if count:
                self._cache.groups.append((prompt, start, start + count))
            start += count


class _SharedPromptCache:
    """Keys and values: of each prompt once, and of what each row has sampled so far.

    Shapes: H key-value heads of size D; a prompt's keys are stored (H, D, length), its values
    (H, length, D); sampled ones in buffers (rows, H, capacity, D), capacity doubling as needed.
    """

    is_compileable = False

    def __init__(self, prompts: list[list[tuple[Tensor, Tensor]]]) -> None:
        self.prompts = [
            [(keys.transpose(1, 2).contiguous(), values.contiguous()) for keys, values in layers]
            for layers in prompts
        ]
        #: (prompt, first row, last row + 1) of the prompts that still have rows.
        self.groups: list[tuple[int, int, int]] = []
        self._keys: list[Tensor | None] = [None] * len(prompts[0])
        self._values: list[Tensor | None] = [None] * len(prompts[0])
        self._lengths = [0] * len(prompts[0])

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return how many sampled tokens a layer holds; positions are passed explicitly."""
        return self._lengths[layer_idx]

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Append one step, (rows, H, 1, D); return all sampled ones, (rows, H, steps, D)."""
        at = self._lengths[layer_idx]
        self._keys[layer_idx] = _append(self._keys[layer_idx], keys, at)
        self._values[layer_idx] = _append(self._values[layer_idx], values, at)
        self._lengths[layer_idx] = at + 1
        return self.sampled(layer_idx)

    def sampled(self, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Return a layer's sampled keys and values."""
        keys, values, length = (
            self._keys[layer_idx],
            self._values[layer_idx],
            self._lengths[layer_idx],
        )
        assert keys is not None
        assert values is not None
        return keys[:, :, :length], values[:, :, :length]

    def keep(self, rows: Tensor) -> None:
        """Hold only ``rows``."""
        for store in (self._keys, self._values):
            for layer, buffer in enumerate(store):
                if buffer is not None:
                    store[layer] = buffer[rows.to(buffer.device)]


def _append(buffer: Tensor | None, new: Tensor, at: int) -> Tensor:
    rows, heads, _, size = new.shape
    if buffer is None:
        buffer = new.new_empty(rows, heads, 32, size)
    if at == buffer.shape[2]:
        buffer = torch.cat([buffer, torch.empty_like(buffer)], dim=2)
    buffer[:, :, at] = new[:, :, 0]
    return buffer


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 - part of the hook's signature
    scaling: float | None = None,
    shared_prompt: _SharedPromptCache | None = None,
    **_unused: Any,
) -> tuple[Tensor, None]:
    """Attention of one step: to the prompt, shared by its rows, and to each row's own tokens.

    The two softmaxes are joined through their maxima and sums, as in the online softmax of
    arXiv 1805.02867. Shapes: query (rows, heads, 1, D), key and value (rows, H, steps, D).
    """
    assert shared_prompt is not None
    rows, heads, _, size = query.shape
    kv_heads, per = key.shape[1], heads // key.shape[1]
    query = query.float() * (size**-0.5 if scaling is None else scaling)
    query = query.view(rows, kv_heads, per, size)
    own = query @ key.float().transpose(2, 3)  # (rows, H, heads per H, steps)
    peak = own.amax(-1, keepdim=True)
    own = own.sub_(peak).exp_()
    total, mixed = own.sum(-1, keepdim=True), own @ value.float()
    # Prompts are attended to in the layout (H, rows x heads per H, ...).
    flat = query.transpose(0, 1).reshape(kv_heads, rows * per, size)
    parts = []
    for prompt, first, last in shared_prompt.groups:
        keys, values = shared_prompt.prompts[prompt][module.layer_idx]
        scores = torch.bmm(flat[:, first * per : last * per], keys.float())
        top = scores.amax(-1, keepdim=True)
        scores.sub_(top).exp_()
        parts.append((top, scores.sum(-1, keepdim=True), torch.bmm(scores, values.float())))
    prompted = shared_prompt.groups[-1][2]  # the rows beyond are padding
    top, sums, mix = (
        torch.cat(part, dim=1).view(kv_heads, prompted, per, -1).transpose(0, 1)
        for part in zip(*parts, strict=True)
    )
    joint = torch.maximum(top, peak[:prompted])
    theirs, ours = (top - joint).exp_(), (peak[:prompted] - joint).exp_()
    total[:prompted] = total[:prompted] * ours + sums * theirs
    mixed[:prompted] = mixed[:prompted] * ours + mix * theirs
    return (mixed / total).view(rows, 1, heads, size).to(value.dtype), None


AttentionInterface.register(_HOOK, _attend)


class PlainDecoder:
    """Decoding with the model's own cache: left-padded prompts, one copy for each completion."""

    def __init__(self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], n: int) -> None:
        self._model = model
        self._cache_name = cache_argument(model)
        longest = max(len(prompt) for prompt in prompts)
        ids = torch.zeros(len(prompts), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = torch.tensor(prompt)
            mask[row, longest - len(prompt) :] = 1
        # Repeated before the forward pass: not every cache class can repeat itself.
        ids, mask = (x.repeat_interleave(n, dim=0).to(model.device) for x in (ids, mask))
        self._mask = mask
        output = model(ids, attention_mask=mask, use_cache=True, **self._positions(mask))
        self._cache = _cache_of(output)
        self.logits = output.logits[:, -1]

    def step(self, tokens: Tensor) -> None:
        """Append ``tokens`` (rows,) and update ``logits``."""
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
        positions = {name: value[:, -1:] for name, value in self._positions(self._mask).items()}
        output = self._model(
            tokens[:, None],
            attention_mask=self._mask,
            use_cache=True,
            **{self._cache_name: self._cache},
            **positions,
        )
        self.logits = output.logits[:, -1]

    def keep(self, rows: Tensor) -> None:
        """Hold only ``rows``, ascending indices into the present ones."""
        rows = rows.to(self.logits.device)
        self.logits, self._mask = self.logits[rows], self._mask[rows]
        self._cache.reorder_cache(rows)

    def _positions(self, mask: Tensor) -> dict[str, Tensor]:
        if "position_ids" not in inspect.signature(self._model.forward).parameters:
            return {}
        return {"position_ids": (mask.cumsum(1) - 1).clamp_min(0)}


def cache_argument(model: PreTrainedModel) -> str:
    """Return the name of the cache argument, which transformers 5.24 renamed."""
    names = inspect.signature(model.forward).parameters
    return "cache" if "cache" in names else "past_key_values"


def _cache_of(output: Any) -> Any:
    cache = getattr(output, "cache", None)
    return output.past_key_values if cache is None else cache


def attends_to_everything(model: PreTrainedModel) -> bool:
    """Return whether every layer is plain causal attention through the hook of transformers."""
    config = model.config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    windowed = getattr(config, "sliding_window", None) and getattr(
        config, "use_sliding_window", True
    )
    capped = getattr(config, "attn_logit_softcapping", None)
    hooked = getattr(model, "_supports_attention_backend", False)
    return bool(hooked and kinds == {"full_attention"} and not windowed and not capped)


@contextmanager
def _attention(model: PreTrainedModel, name: str) -> Iterator[None]:
    config: Any = model.config
    before = config._attn_implementation_internal
    config._attn_implementation_internal = name
    try:
        yield
    finally:
        config._attn_implementation_internal = before
