"""Sampling and one training step, each against its peer in the same run.

    python -m tests.benchmarks.trainer            # a Llama of 3 M parameters (Linux only)
    python -m tests.benchmarks.trainer --smollm2 FOLDER   # and SmolLM2 with LoRA, converted there

Sampling: tokens/s of ``vpo.sampling`` against ``generate`` of transformers, equal prompts and
lengths. Training: tokens/s and peak memory of one update against TRL's ``GRPOTrainer`` on the same
rollouts, same loss (token mean, clip 0.2 / 0.28, no KL), eight completions a micro-batch, each side
in a process of its own so that peaks do not mix. TRL's side is its loss, backward pass and
optimiser step; its sampling and rewards are left out. Both count completion tokens; the fastest of
several rounds counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from vpo.model import attach_lora
from vpo.rollouts import Rollout
from vpo.sampling import generate
from vpo.trainer import Trainer, TrainerConfig

PROMPT, COMPLETION = 200, 60
ROUNDS = 3


def small_llama(folder: Path) -> Path:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1536,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def load(folder: Path, lora: bool) -> Any:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return attach_lora(model, rank=16, seed=0) if lora else model


def make_rollouts(groups: int, vocabulary: int) -> tuple[list[Rollout], np.ndarray]:
    """Groups of 8, prompts and completions of half to the whole of their greatest length."""
    rng = np.random.default_rng(0)
    rollouts = []
    for group in range(groups):
        prompt = rng.integers(0, vocabulary, int(rng.integers(PROMPT // 2, PROMPT + 1))).tolist()
        for _ in range(8):
            length = int(rng.integers(COMPLETION // 2, COMPLETION + 1))
            completion = rng.integers(0, vocabulary, length).tolist()
            scores = np.full(length, -np.log(vocabulary), np.float32)
            rollouts.append(Rollout(prompt, completion, scores, np.zeros((1, 1)), group=group))
    return rollouts, rng.normal(size=len(rollouts))


def sampling() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = load(small_llama(Path(folder)), lora=False).train(False)
    rng = np.random.default_rng(0)
    prompts = rng.integers(2, 1536, (16, PROMPT)).tolist()

    def ours() -> int:
        groups = generate(
            model, prompts, 8, max_new_tokens=COMPLETION, eos_id=-1, seeds=range(len(prompts))
        )
        return sum(len(one.ids) for group in groups for one in group)

    def theirs() -> int:
        torch.manual_seed(0)
        ids = torch.tensor(prompts)
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            top_k=0,
            num_return_sequences=8,
            max_new_tokens=COMPLETION,
            min_new_tokens=COMPLETION,
            pad_token_id=0,
            eos_token_id=1,
        )
        return (out.shape[1] - PROMPT) * len(out)

    a, b = fastest(ours), fastest(theirs)
    print(f"sampling, 16 prompts x 8: {a:,.0f} tokens/s, generate {b:,.0f}: {a / b:.1f} x")


def fastest(run: Any) -> float:
    """Tokens a second of the fastest round."""
    best = 0.0
    for _ in range(ROUNDS):
        start = time.perf_counter()
        best = max(best, run() / (time.perf_counter() - start))
    return best


def our_step(folder: Path, lora: bool, groups: int) -> Any:
    model = load(folder, lora)
    rollouts, advantages = make_rollouts(groups, model.config.vocab_size)
    # Eight completions a micro-batch, as on TRL's side; here they share their prompt.
    config = TrainerConfig(
        kl_coef=0.0, max_step_kl=None, learning_rate=1e-5, token_budget=PROMPT + 8 * COMPLETION
    )
    trainer = Trainer(model, config)
    tokens = sum(len(rollout.completion_ids) for rollout in rollouts)

    def run() -> int:
        assert trainer.update(rollouts, advantages).accepted
        return tokens

    return run


def trl_step(folder: Path, lora: bool, groups: int) -> Any:
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    model = load(folder, lora)
    rollouts, advantages = make_rollouts(groups, model.config.vocab_size)
    words = Tokenizer(models.WordLevel({"<p>": 0, "<e>": 1}, unk_token="<p>"))
    args = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=True,
        bf16=False,
        report_to=[],
        num_generations=8,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=groups,
        gradient_checkpointing=False,
        epsilon_high=0.28,
        beta=0.0,
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=args,
        train_dataset=Dataset.from_dict({"prompt": ["x"] * 8}),
        processing_class=PreTrainedTokenizerFast(
            tokenizer_object=words, pad_token="<p>", eos_token="<e>"
        ),
    )
    trained = [p for p in trainer.model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, weight_decay=0.01)
    tokens = sum(len(rollout.completion_ids) for rollout in rollouts)
    trainer.current_gradient_accumulation_steps = groups

    def pad(rows: list[Any], side: str) -> torch.Tensor:
        tensors = [torch.as_tensor(row) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_side=side)

    def run() -> int:
        trainer.model.train()
        for first in range(0, len(rollouts), 8):
            some = rollouts[first : first + 8]
            inputs = {
                "prompt_ids": pad([r.prompt_ids for r in some], "left"),
                "prompt_mask": pad([[1] * len(r.prompt_ids) for r in some], "left"),
                "completion_ids": pad([r.completion_ids for r in some], "right"),
                "completion_mask": pad([[1] * len(r.completion_ids) for r in some], "right"),
                "advantages": torch.from_numpy(advantages[first : first + 8]).float(),
                "old_per_token_logps": pad([r.behaviour_logprobs for r in some], "right"),
                "num_items_in_batch": torch.tensor(float(tokens)),
            }
            trainer.compute_loss(trainer.model, inputs).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return tokens

    return run


def measured(make: Any, folder: Path, lora: bool, groups: int, queue: Any) -> None:
    """Put tokens/s, and the MiB that a step needs beyond model and libraries."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    run = make(folder, lora, groups)
    # Not ru_maxrss, which a process inherits from the one that started it.
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = resident("VmRSS")
    speed = fastest(run)
    queue.put((speed, resident("VmHWM") - before))


def resident(field: str) -> float:
    """Return a field of Linux's /proc/self/status, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith(field + ":"))
    return int(value) / 1024


def training(label: str, folder: Path, lora: bool, groups: int) -> None:
    context = multiprocessing.get_context("spawn")
    results = []
    for make in (our_step, trl_step):
        queue = context.Queue()
        process = context.Process(target=measured, args=(make, folder, lora, groups, queue))
        process.start()
        results.append(queue.get())
        process.join()
    (speed, memory), (their_speed, their_memory) = results
    print(
        f"training, {label}, {groups} prompts x 8: {speed:,.0f} completion tokens/s, "
        f"TRL {their_speed:,.0f}: {speed / their_speed:.2f} x; "
        f"peak beyond the model {memory:,.0f} MiB, TRL {their_memory:,.0f}: "
        f"{memory / their_memory:.2f} x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smollm2", type=Path, help="folder of SmolLM2-135M for transformers")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sampling()
    with tempfile.TemporaryDirectory() as folder:
        training("Llama 3 M, full weights", small_llama(Path(folder)), lora=False, groups=8)
        training("Llama 3 M, LoRA", small_llama(Path(folder)), lora=True, groups=8)
    if options.smollm2:
        training("SmolLM2-135M, LoRA", options.smollm2, lora=True, groups=1)


if __name__ == "__main__":
    main()
