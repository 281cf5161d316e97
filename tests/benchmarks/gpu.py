"""The learning library on one GPU: utilities, agreement, speed of a step, memory.

    python -m tests.benchmarks.gpu          # under eight minutes; without a GPU it says so and ends
    python -m tests.benchmarks.gpu --cpu    # the same at toy size, on the CPU

Needs torch, transformers, peft and accelerate; models are made at random, nothing is downloaded.

- Utilities: sets a second on the device, and the largest difference from the numpy core.
- Agreement: the loss and the gradient norm of one update, in float32 on both devices.
- Step: tokens/s of an update, and the share of the measured matrix-product rate that its model
  FLOPs take (MFU): 2 N a token forward, 4 N backward (2 N where the weights are frozen), plus
  attention, for the tokens that are computed. What a step does beside it (advantages aside:
  scoring, AdamW, the undo copy) counts as time and not as FLOPs.
- Memory: peak of an update against the length of completions, beside what the logits alone would
  take if they were held at once in float32.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from vpo import torch_utility
from vpo.model import attach_lora
from vpo.packing import Costs, make_rows
from vpo.rollouts import Rollout
from vpo.trainer import Trainer, TrainerConfig
from vpo.utility import set_utility

#: Seconds after which no further part is begun.
BUDGET = 400.0

SHAPES: dict[str, dict[str, int]] = {
    "0.5 B": {
        "vocab_size": 151_936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
    },
    "1.5 B": {
        "vocab_size": 151_936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
    },
    "toy": {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
}


def qwen(shape: str, device: str, dtype: torch.dtype) -> Qwen2ForCausalLM:
    """A model of Qwen's shape with random weights."""
    config = Qwen2Config(**SHAPES[shape], tie_word_embeddings=True, max_position_embeddings=32_768)
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        return Qwen2ForCausalLM(config).to(dtype)


def rollouts_of(
    vocabulary: int, groups: int, size: int, prompt: int, completion: int
) -> tuple[list[Rollout], np.ndarray]:
    """Groups of rollouts whose completions have half to all of the greatest length."""
    rng = np.random.default_rng(0)
    rollouts = []
    for group in range(groups):
        prompt_ids = rng.integers(0, vocabulary, prompt).tolist()
        for _ in range(size):
            length = int(rng.integers(completion // 2, completion + 1))
            rollouts.append(
                Rollout(
                    prompt_ids,
                    rng.integers(0, vocabulary, length).tolist(),
                    np.full(length, -np.log(vocabulary), np.float32),
                    np.zeros((1, 1)),
                    group=group,
                )
            )
    return rollouts, rng.normal(size=len(rollouts))


def settings(**changes: Any) -> TrainerConfig:
    config = TrainerConfig(kl_coef=0.0, max_step_kl=None, bf16=True, token_budget=16_384)
    return replace(config, **changes)


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def fastest(run: Callable[[], object], device: str, rounds: int = 3) -> float:
    """Seconds of the fastest round, after one that warms up."""
    run()
    best = float("inf")
    for _ in range(rounds):
        synchronise(device)
        start = time.perf_counter()
        run()
        synchronise(device)
        best = min(best, time.perf_counter() - start)
    return best


def product_rate(device: str) -> float:
    """FLOP/s of a large matrix product in bfloat16: what the step is held against."""
    size = 8192 if device == "cuda" else 512
    a = torch.ones(size, size, device=device, dtype=torch.bfloat16)
    return 2 * size**3 / fastest(lambda: a @ a, device, rounds=5)


def utilities(device: str, small: bool) -> None:
    for n, m, k in ((1024, 3, 4), (256 if small else 8192, 8, 16)):
        rewards = np.random.default_rng(0).random((n, m, k))
        tensor = torch.tensor(rewards, device=device, dtype=torch.float32)
        seconds = fastest(lambda t=tensor: torch_utility.set_utility(t), device)
        # Rows on a sphere: the numpy core has none to drop, and the nodes are the same.
        rewards /= np.linalg.norm(rewards, axis=2, keepdims=True)
        ours = torch_utility.set_utility(torch.tensor(rewards, device=device)).cpu().numpy()
        gap = np.abs(ours - set_utility(rewards).value).max()
        print(
            f"utilities, {n} sets of {m} x {k}: {1e3 * seconds:.2f} ms "
            f"({n / seconds:,.0f} sets/s), float64 within {gap:.1e} of numpy"
        )


def agreement(device: str) -> None:
    rollouts, advantages = rollouts_of(512, groups=4, size=4, prompt=20, completion=40)
    stats = []
    for where in ("cpu", device):
        trainer = Trainer(qwen("toy", where, torch.float32), settings(bf16=False, kl_coef=0.01))
        trainer.update(rollouts, advantages)
        stats.append(trainer.update(rollouts, advantages))
    gap = abs(stats[0].loss - stats[1].loss)
    norms = abs(stats[0].grad_norm / stats[1].grad_norm - 1)
    print(f"agreement of cpu and {device}: loss within {gap:.1e}, gradient norm within {norms:.1e}")
    assert gap < 1e-4, stats
    assert norms < 1e-2, stats


def flops(model: Any, rollouts: list[Rollout], budget: int, frozen: bool) -> float:
    """Model FLOPs of forward and backward passes over the rows that are computed."""
    shape = model.config
    costs = Costs.of(model)
    rows = make_rows(
        [r.prompt_ids for r in rollouts],
        [r.completion_ids for r in rollouts],
        shared=True,
        costs=costs,
        budget=budget,
    )
    head = shape.vocab_size * shape.hidden_size
    total = 0.0
    for row in rows:
        predicted = sum(len(completion) for completion in row.completions)
        forward = 2 * costs.token * len(row) + 2 * head * predicted
        forward += costs.pair * len(row) ** 2  # half of the pairs, two products of 2 FLOPs each
        total += forward * (2 if frozen else 3)
    return total


def step(device: str, shape: str, lora: bool, peak: float, small: bool) -> None:
    dtype = torch.bfloat16 if lora else torch.float32
    base = qwen(shape, device, dtype)
    size = (2, 4, 16, 32) if small else (8, 8, 256, 512)
    rollouts, advantages = rollouts_of(base.config.vocab_size, *size)
    config = settings()
    work = flops(base, rollouts, config.token_budget, frozen=lora)
    model = attach_lora(base, rank=16, seed=0) if lora else base
    trainer = Trainer(model, config)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = fastest(lambda: trainer.update(rollouts, advantages), device, rounds=2)
    memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")
    tokens = sum(len(rollout.completion_ids) for rollout in rollouts)
    print(
        f"step, {shape}, {'LoRA' if lora else 'full weights'}: {seconds:.2f} s, "
        f"{tokens / seconds:,.0f} completion tokens/s, MFU {work / seconds / peak:.0%} "
        f"of {peak / 1e12:.1f} TFLOP/s, peak {memory:.1f} GiB"
    )


def memory(device: str, shape: str, small: bool) -> None:
    model = attach_lora(qwen(shape, device, torch.bfloat16), rank=16, seed=0)
    trainer = Trainer(model, settings(gradient_checkpointing=True, token_budget=1))
    vocabulary = model.config.vocab_size
    for length in (32, 64) if small else (1024, 4096, 16_384):
        rollouts, advantages = rollouts_of(vocabulary, 1, 2, 64, length)
        before = 0.0
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        assert trainer.update(rollouts, advantages).accepted
        peak = torch.cuda.max_memory_allocated() - before if device == "cuda" else float("nan")
        longest = max(len(rollout.completion_ids) for rollout in rollouts)
        print(
            f"memory, {shape}, LoRA, completions of {longest} tokens: {peak / 2**30:.2f} GiB "
            f"beyond the model, logits alone {4 * longest * vocabulary / 2**30:.2f} GiB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="run at toy size on the CPU")
    small = parser.parse_args().cpu
    if not (small or torch.cuda.is_available()):
        print("no GPU: skipped (--cpu runs the same at toy size)")
        return
    device = "cpu" if small else "cuda"
    torch.backends.cuda.matmul.allow_tf32 = False
    began = time.perf_counter()
    print(torch.cuda.get_device_name() if device == "cuda" else "CPU, toy size")
    peak = product_rate(device)
    shapes = ["toy"] if small else ["0.5 B", "1.5 B"]
    parts: list[Callable[[], None]] = [lambda: utilities(device, small), lambda: agreement(device)]
    for shape in shapes:
        for lora in (True, False):
            parts.append(lambda s=shape, one=lora: step(device, s, one, peak, small))
        if shape == shapes[0]:
            parts.append(lambda s=shape: memory(device, s, small))
    for done, part in enumerate(parts):
        if time.perf_counter() - began > BUDGET:
            print(f"out of time: the last {len(parts) - done} parts are left out")
            break
        part()
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
    print(f"{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
