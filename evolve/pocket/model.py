"""The pocket model's shape, its export, and the loss it is trained by."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from evolve.pocket.batches import Batch
from evolve.pocket.tokens import EOS, PAD, save_tokenizer

#: Prompt tokens teach what programs look like; they count this much in the loss.
PROMPT_WEIGHT = 0.3
#: Without more weight where a line changes, one rewritten line in six is only copied; closing
#: brackets are where most answers fail that are no Python.
HARD_WEIGHT = 2.0


def make_model(tokenizer: Tokenizer, seed: int) -> LlamaForCausalLM:
    """Return a fresh model of 3.7 M parameters."""
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.token_to_id(EOS),
        pad_token_id=tokenizer.token_to_id(PAD),
    )
    # The constructor of transformers draws from the global generator; it is put back afterwards.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def loss_of(model: LlamaForCausalLM, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the loss to minimise and the mean loss of completion tokens, both in nats a token."""
    hidden = model.model(
        input_ids=batch.ids, attention_mask=batch.mask, position_ids=batch.positions
    ).last_hidden_state
    logits = model.lm_head(hidden.flatten(0, 1)[batch.source])
    losses = functional.cross_entropy(logits.float(), batch.target, reduction="none")
    weights = torch.tensor([0.0, PROMPT_WEIGHT, 1.0, HARD_WEIGHT])[batch.kind]
    return (losses * weights).sum() / weights.sum(), losses[batch.kind >= 2].mean().detach()


def export(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Write model and tokenizer for ``from_pretrained``, weights in bfloat16; all or nothing."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    copy = LlamaForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    copy.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=model.config.eos_token_id,
        pad_token_id=model.config.pad_token_id,
        do_sample=True,
        max_new_tokens=160,
    )
    copy.bfloat16().save_pretrained(str(part))
    save_tokenizer(tokenizer, part)
    shutil.rmtree(folder, ignore_errors=True)
    part.replace(folder)
