"""Trains the pocket model from nothing: tokenizer, corpus, model; ``--resume`` goes on.

``python -m evolve.pocket.train --out DIR --minutes 50``: the corpus is written by other processes
beside the training, so the whole takes about ten minutes more than ``--minutes``. With a corpus
that is already there, the batches depend on the seed alone; the learning rate follows the clock.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from tokenizers import Tokenizer
from torch import nn
from transformers import LlamaForCausalLM

from evolve.pocket.batches import Row, batches, collate, read_rows
from evolve.pocket.corpus import sample_texts, write_corpus
from evolve.pocket.model import export, loss_of, make_model
from evolve.pocket.tokens import EOS, PAD, save_tokenizer, token_id, train_tokenizer
from evolve.seeding import rng_for

_BATCH_TOKENS = 6144
_LEARNING_RATE = 3e-3
_WARM_UP = 60  # steps
_CHECKPOINT_S = 120.0
_REPORT_S = 15.0
#: Files of the corpus that must be there before training begins, the held-out one included.
_FIRST_SHARDS = 6
_HELD_OUT = "0000.jsonl"

_console = Console()


def main(
    out: Annotated[Path, typer.Option(help="folder for everything")],
    minutes: Annotated[float, typer.Option(min=0.1, help="time for training, all tries together")],
    shards: Annotated[int, typer.Option(min=2, help="files of 250 programs in the corpus")] = 120,
    builders: Annotated[int, typer.Option(min=1, help="processes that write the corpus")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="threads that train")] = 1,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    resume: Annotated[bool, typer.Option(help="go on from the checkpoint in the folder")] = False,
) -> None:
    """Train the pocket model; the result is in ``OUT/weights``."""
    checkpoint = out / "checkpoint.pt"
    if checkpoint.exists() and not resume:
        raise typer.BadParameter(f"{checkpoint} is there: add --resume, or choose another --out")
    torch.set_num_threads(threads)
    # So that the builders end with this process, however it is asked to.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tokenizer = _tokenizer(out / "tokenizer", seed)
    builder = multiprocessing.get_context("spawn").Process(
        target=_build, args=(out, shards, seed, builders)
    )
    builder.start()
    try:
        _wait_for_corpus(out / "corpus", min(shards, _FIRST_SHARDS), builder)
        _train(out, tokenizer, minutes * 60, seed)
    finally:
        builder.terminate()
        builder.join()


def _tokenizer(folder: Path, seed: int) -> Tokenizer:
    file = folder / "tokenizer.json"
    if not file.exists():
        _console.print("tokenizer: reading sample texts")
        save_tokenizer(train_tokenizer(sample_texts(4000, seed)), folder)
    return Tokenizer.from_file(str(file))


def _build(out: Path, shards: int, seed: int, processes: int) -> None:
    os.nice(5)  # the training is what everybody waits for
    # So that the pool in write_corpus is closed and leaves no process behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    file = out / "tokenizer" / "tokenizer.json"
    for _ in write_corpus(out / "corpus", file, range(shards), seed, processes):
        pass


def _wait_for_corpus(folder: Path, first: int, builder: BaseProcess) -> None:
    while (count := len(list(folder.glob("*.jsonl")))) < first:
        if builder.exitcode is not None:
            _console.print(f"{folder}: its builder ended with exit code {builder.exitcode}")
            raise typer.Exit(1)
        _console.print(f"corpus: {count} of the first {first} files", end="\r")
        time.sleep(2)


def _train(out: Path, tokenizer: Tokenizer, seconds: float, seed: int) -> None:
    eos, pad = token_id(tokenizer, EOS), token_id(tokenizer, PAD)
    model = make_model(tokenizer, seed)
    optimizers = _optimizers(model)
    step, spent, epoch = 0, 0.0, 0
    if (out / "checkpoint.pt").exists():
        step, spent, epoch = _load(out / "checkpoint.pt", model, optimizers)
    shards = _Shards(out / "corpus", tokenizer, eos)
    shards.refresh()
    held_out = shards.files[_HELD_OUT][:160]
    bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    start, seen = time.monotonic(), 0
    reported = saved = start
    smooth: float | None = None
    while spent + time.monotonic() - start < seconds:
        shards.refresh()
        epoch += 1
        for chosen in batches(shards.training(), _BATCH_TOKENS, rng_for(seed, "epoch", epoch)):
            now = time.monotonic()
            share = (spent + now - start) / seconds
            if share >= 1:
                break
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = group["full_lr"] * _schedule(step, share)
            batch = collate(chosen, pad)
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss, answer_loss = loss_of(model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            step += 1
            seen += sum(row.length for row in chosen)
            latest = answer_loss.item()
            smooth = latest if smooth is None else smooth + 0.03 * (latest - smooth)
            if now - reported > _REPORT_S:
                reported = now
                _console.print(
                    f"step {step}  epoch {epoch} of {len(shards.files)} files  "
                    f"answer loss {smooth:.3f}  {seen / (now - start):.0f} tokens/s  "
                    f"{(1 - share) * seconds / 60:.1f} min left"
                )
            if now - saved > _CHECKPOINT_S:
                saved = now
                _report_held_out(model, held_out, pad)
                _save(out / "checkpoint.pt", model, optimizers, step, spent + now - start, epoch)
                export(model, tokenizer, out / "weights")
    _save(out / "checkpoint.pt", model, optimizers, step, spent + time.monotonic() - start, epoch)
    export(model, tokenizer, out / "weights")
    _report_held_out(model, held_out, pad)


@torch.inference_mode()
def _report_held_out(model: LlamaForCausalLM, rows: list[Row], pad: int) -> None:
    parts = [loss_of(model, collate(rows[i : i + 16], pad))[1] for i in range(0, len(rows), 16)]
    _console.print(f"held-out answer loss {torch.stack(parts).mean():.4f}")


class _Shards:
    """The files of the corpus that are there, as token ids."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, eos_id: int) -> None:
        self.folder, self.tokenizer, self.eos_id = folder, tokenizer, eos_id
        self.files: dict[str, list[Row]] = {}

    def refresh(self) -> None:
        """Read what has come since."""
        for path in sorted(self.folder.glob("*.jsonl")):
            if path.name not in self.files:
                self.files[path.name] = read_rows(path, self.tokenizer, self.eos_id)

    def training(self) -> list[Row]:
        """Return all rows but those held out."""
        names = sorted(self.files)
        return [row for name in names if name != _HELD_OUT for row in self.files[name]]


def _optimizers(model: LlamaForCausalLM) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices inside the layers, AdamW for embeddings and norms.

    Muon (Jordan et al. 2024) with the step size of Liu et al. 2025 (arXiv 2502.16982, eq. 4), so
    that one learning rate suits both.
    """
    inner = [p for p in model.model.layers.parameters() if p.ndim == 2]
    known = {id(p) for p in inner}
    outer = [p for p in model.parameters() if id(p) not in known]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(
            inner, lr=_LEARNING_RATE, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(outer, lr=_LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["full_lr"] = group["lr"]
    return optimizers


def _schedule(step: int, share: float) -> float:
    """Return the factor of the learning rate: a warm-up, full, and a fall over the last 60 %."""
    fall = min(1.0, max(0.02, (1 - share) / 0.6))
    return min(1.0, (step + 1) / _WARM_UP) * fall


def _save(
    path: Path,
    model: LlamaForCausalLM,
    optimizers: list[torch.optim.Optimizer],
    step: int,
    spent: float,
    epoch: int,
) -> None:
    state: dict[str, Any] = {
        "model": model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "step": step,
        "spent": spent,
        "epoch": epoch,
    }
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)


def _load(
    path: Path, model: LlamaForCausalLM, optimizers: list[torch.optim.Optimizer]
) -> tuple[int, float, int]:
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return state["step"], state["spent"], state["epoch"]


if __name__ == "__main__":
    typer.run(main)
