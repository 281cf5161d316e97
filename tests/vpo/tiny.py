"""Small random models for the tests."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SMALL: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    # Far from uniform, so that a wrong context shows.
    "initializer_range": 0.5,
}


def llama(seed: int = 0, **changes: Any) -> LlamaForCausalLM:
    return _seeded(LlamaForCausalLM, LlamaConfig(**SMALL, **changes), seed)


def mistral(seed: int = 0) -> MistralForCausalLM:
    """Attends to the last four tokens only."""
    return _seeded(MistralForCausalLM, MistralConfig(**SMALL, sliding_window=4), seed)


def qwen(seed: int = 0) -> Qwen3ForCausalLM:
    config = Qwen3Config(**SMALL, head_dim=8, tie_word_embeddings=True)
    return _seeded(Qwen3ForCausalLM, config, seed)


def gpt2(seed: int = 0) -> GPT2LMHeadModel:
    """Learned positions, dropout in its configuration."""
    config = GPT2Config(
        vocab_size=32, n_positions=128, n_embd=16, n_layer=2, n_head=4, initializer_range=0.5
    )
    return _seeded(GPT2LMHeadModel, config, seed)


MODELS = {"llama": llama, "qwen": qwen, "gpt2": gpt2, "mistral": mistral}


def teacher_forced(model: PreTrainedModel, prompt: Any, completion: Any, temperature: float = 1.0):
    """Log-probabilities of a completion by one plain pass over the whole sequence."""
    ids = torch.tensor([list(prompt) + list(completion)])
    with torch.no_grad():
        logits = model(ids).logits[0, len(prompt) - 1 : -1].double() / temperature
    return logits.log_softmax(-1).gather(1, torch.tensor(list(completion))[:, None])[:, 0].numpy()


def _seeded(kind: Any, config: Any, seed: int) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind(config).eval()
