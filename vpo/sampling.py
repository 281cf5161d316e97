"""Grouped sampling in process: n completions of each prompt, with behaviour log-probabilities.

Reproducibility: completion r of a prompt draws from the stream addressed by (the prompt's seed, r),
one uniform number a token, so a draw never depends on what else is sampled. With a model that
attends to everything (see :mod:`vpo.decoding`), the same number of threads and the same machine,
the logits do not depend on it either: the same completions and bit-equal log-probabilities for any
batch size. For other models they may differ in the last bits, and then a token once in about a
million draws. Between machines nothing is promised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedModel

from vpo.decoding import open_decoder


@dataclass(frozen=True)
class Sample:
    """One completion.

    Attributes:
        ids: The T sampled token ids, the end token included when it was sampled.
        logprobs: (T,) float32, their log-probabilities at the sampling temperature.
        finished: Whether it ended by itself, not at ``max_new_tokens``.
    """

    ids: tuple[int, ...]
    logprobs: npt.NDArray[np.float32]
    finished: bool


def generate(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    n: int,
    *,
    max_new_tokens: int,
    eos_id: int | Sequence[int],
    seeds: Sequence[int],
    temperature: float = 1.0,
    batch_size: int = 128,
) -> Iterator[list[Sample]]:
    """Yield ``n`` samples for each prompt, in order, batch by batch.

    Args:
        model: A causal language model; adapters on it are used as they are.
        prompts: Token ids, at least one for each prompt.
        n: Completions of each prompt.
        max_new_tokens: Length at which a completion is cut.
        eos_id: Token or tokens that end a completion.
        seeds: One non-negative integer for each prompt.
        temperature: Positive; log-probabilities are those of softmax(logits / temperature).
        batch_size: Completions decoded together; prompts are not split, so at least ``n``.

    Raises:
        ValueError: If an argument is out of range.
    """
    if len(seeds) != len(prompts):
        raise ValueError(f"{len(prompts)} prompts, {len(seeds)} seeds: one for each is needed")
    if not all(len(prompt) for prompt in prompts):
        raise ValueError("a prompt is empty: at least one token is needed")
    if n < 1 or max_new_tokens < 1 or not temperature > 0:
        raise ValueError(
            f"n={n}, max_new_tokens={max_new_tokens}, temperature={temperature}: "
            "all must be positive"
        )
    ends = torch.tensor([eos_id] if isinstance(eos_id, int) else list(eos_id))
    together = max(1, batch_size // n)
    for first in range(0, len(prompts), together):
        chunk = slice(first, first + together)
        uniforms = np.stack([_uniforms(s, n, max_new_tokens) for s in seeds[chunk]])
        yield from _batch(model, prompts[chunk], n, uniforms, ends, temperature)


def _uniforms(seed: int, n: int, count: int) -> npt.NDArray[np.float64]:
    """Return (n, count) uniform numbers, each row from a stream of its own."""
    streams = (np.random.SeedSequence(seed, spawn_key=(row,)) for row in range(n))
    return np.stack([np.random.default_rng(stream).random(count) for stream in streams])


@torch.inference_mode()
def _batch(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    n: int,
    uniforms: npt.NDArray[np.float64],
    ends: Tensor,
    temperature: float,
) -> list[list[Sample]]:
    rows, steps = len(prompts) * n, uniforms.shape[-1]
    noise = torch.from_numpy(uniforms.reshape(rows, steps))
    ids = torch.zeros(rows, steps, dtype=torch.long)
    logprobs = torch.zeros(rows, steps)
    lengths = torch.full((rows,), steps)
    finished = torch.zeros(rows, dtype=torch.bool)
    training = model.training
    model.train(False)
    decoder = open_decoder(model, prompts, n)
    held = torch.arange(rows)  # which completion each of the decoder's rows is
    for step in range(steps):
        tokens, chosen = draw(decoder.logits, noise[held, step], temperature)
        running = ~finished[held]
        ids[held[running], step] = tokens[running]
        logprobs[held[running], step] = chosen[running]
        ended = held[running & torch.isin(tokens, ends)]
        finished[ended], lengths[ended] = True, step + 1
        if finished.all() or step + 1 == steps:
            break
        running = ~finished[held]
        # Dropping rows copies what the others hold, so a few idle ones are carried along.
        if running.sum() <= 0.85 * len(held):
            rest = running.nonzero()[:, 0]
            decoder.keep(rest)
            held, tokens = held[rest], tokens[rest]
        decoder.step(tokens.to(model.device))
    model.train(training)
    samples = [
        Sample(
            tuple(ids[row, : lengths[row]].tolist()),
            logprobs[row, : lengths[row]].numpy().copy(),
            bool(finished[row]),
        )
        for row in range(rows)
    ]
    return [samples[first : first + n] for first in range(0, rows, n)]


def draw(logits: Tensor, uniforms: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Return one token for each row by inversion, and its log-probability; both on the CPU.

    Args:
        logits: (rows, vocabulary).
        uniforms: (rows,) float64 in [0, 1).
        temperature: Positive.
    """
    scores = torch.log_softmax(logits.float() / temperature, dim=-1)
    # In float64, so that tokens of small probability keep their share of the unit interval.
    cumulative = scores.exp().cumsum(-1, dtype=torch.float64)
    targets = uniforms.to(cumulative.device)[:, None] * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, targets, right=True).clamp_max(scores.shape[-1] - 1)
    return tokens[:, 0].cpu(), scores.gather(1, tokens)[:, 0].cpu()
