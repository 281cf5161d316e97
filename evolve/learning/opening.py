"""From the name of a policy to a model that samples, and to what trains it."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

from evolve import pocket
from evolve.canonical import canonical_view, raw_view
from evolve.config import Config, Training
from evolve.edits import EditForm
from evolve.errors import ConfigError, PolicyError
from evolve.learning.learner import PolicyLearner
from evolve.learning.policy import ModelPolicy
from evolve.prompts import Shown, instruct
from evolve.seeding import rng_for, seed_for
from evolve.smollm2 import smollm2_folder
from vpo.advantages import ESTIMATORS
from vpo.model import attach_lora, load_policy
from vpo.trainer import Trainer, TrainerConfig


def open_model(config: Config, folder: Path) -> tuple[ModelPolicy, PolicyLearner | None]:
    """Return the policy of a configuration that has a model, and what trains it.

    Raises:
        ConfigError: If the training section does not fit together.
        PolicyError: If the model cannot be loaded.
    """
    _check_training(config.training)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    embedded = config.policy.name == "pocket"
    if embedded:
        # A model this small is slower on several threads, and its logits depend on their number.
        torch.set_num_threads(1)
    policy = _open_pocket(config) if embedded else _open_general(config)
    if not config.training.every:
        return policy, None
    base = policy.model
    # A copy, so that the engine keeps sampling from its own weights while the next are made.
    adapted = attach_lora(
        copy.deepcopy(base),
        rank=config.policy.lora_rank,
        seed=seed_for(config.seed, "lora"),
    )
    settings = TrainerConfig(
        learning_rate=config.training.learning_rate,
        kl_coef=config.training.kl,
        epochs=config.training.epochs,
        temperature=config.policy.temperature,
    )
    trainer = Trainer(adapted, settings, seed=seed_for(config.seed, "trainer"))
    return policy, PolicyLearner(policy, config, folder, trainer, base, not embedded)


def _check_training(training: Training) -> None:
    if training.credit != "rollout" and not ESTIMATORS[training.method].linear:
        raise ConfigError(
            f"training.credit = {training.credit!r}: {training.method} compares whole rollouts, "
            f"'rollout' is allowed"
        )


def _open_general(config: Config) -> ModelPolicy:
    name: str | Path = config.policy.name.removeprefix("hf:")
    if name == "smollm2":
        name = smollm2_folder()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        # Threads beyond the free cores spin while the sandbox's workers hold them: ten times
        # slower. A fixed number also makes a resumed run compute the same.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) - config.sandbox.workers))
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    try:
        model, tokenizer = load_policy(name, dtype=dtype, device=device)
    except ValueError as error:
        raise PolicyError(str(error)) from error
    form: EditForm = "line"

    def render(shown: Shown) -> str:
        text = instruct(shown, form)
        if not tokenizer.chat_template:
            return f"{text}\n"
        chat: str = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        return chat

    context = getattr(model.config, "max_position_embeddings", 4096)
    return ModelPolicy(
        form,
        model,
        tokenizer,
        render,
        raw_view,
        config.policy.temperature,
        config.policy.max_new_tokens,
        context - config.policy.max_new_tokens,
    )


def _open_pocket(config: Config) -> ModelPolicy:
    if config.search.answers > pocket.MAX_ANSWERS:
        raise ConfigError(
            f"search.answers = {config.search.answers}: the pocket model writes "
            f"{pocket.MAX_ANSWERS} answers at most"
        )

    def render(shown: Shown) -> str:
        rng = rng_for(shown.key[0], "window", *shown.key[1:])
        return pocket.render(shown.view.lines, shown.rewards, shown.weights, shown.answers, rng)

    try:
        model, tokenizer = load_policy(pocket.weights_folder())
    except ValueError as error:
        raise PolicyError(str(error)) from error
    return ModelPolicy(
        "line",
        model,
        tokenizer,
        render,
        canonical_view,
        config.policy.temperature,
        config.policy.max_new_tokens,
        pocket.MAX_PROMPT_TOKENS,
    )
