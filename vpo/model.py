"""Causal language models, their LoRA adapters, and both of them as versions on disk.

A version is a folder ``vN``: an adapter in the format of peft, or a whole model in that of
transformers. It appears under its name only when it is complete, and nothing is changed in place.
"""

from __future__ import annotations

import copy
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import (
    LoraConfig,
    PeftModel,
    get_peft_model,
    load_peft_weights,
    set_peft_model_state_dict,
)
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

Model = PreTrainedModel | PeftModel


def load_policy(
    name_or_path: str | Path,
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    **options: Any,
) -> tuple[PreTrainedModel, Any]:
    """Return a causal language model and its tokenizer.

    Args:
        name_or_path: A folder, or a name that transformers resolves.
        dtype: Of the weights.
        device: Where to put them.
        options: Passed to both ``from_pretrained`` (for example ``gguf_file``).

    Raises:
        ValueError: If there is no such model; one line.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(name_or_path, **options)
        model: Any = AutoModelForCausalLM.from_pretrained(name_or_path, dtype=dtype, **options)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"model {str(name_or_path)!r} cannot be loaded: {reason}") from error
    loaded: PreTrainedModel = model.to(device)
    return loaded, tokenizer


def attach_lora(
    model: PreTrainedModel,
    *,
    rank: int,
    seed: int,
    alpha: int | None = None,
    targets: str | Sequence[str] = "all-linear",
) -> PeftModel:
    """Return ``model`` with a fresh LoRA adapter (arXiv 2106.09685), which changes no output yet.

    Args:
        model: The base; its weights are frozen.
        rank: Rank of the update of each matrix.
        seed: Of the adapter's random half; the process-wide generator is left as it was.
        alpha: The update is scaled by alpha / rank; by default ``2 * rank``.
        targets: Names of the layers to adapt; ``"all-linear"`` is all but the output head.
    """
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank if alpha is None else alpha,
        lora_dropout=0.0,
        target_modules=targets if isinstance(targets, str) else list(targets),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        with _peft_asks_under_an_old_name():
            return get_peft_model(model, config)


def prepare_for_training(model: Model, *, checkpointing: bool) -> None:
    """Switch dropout off and gradient checkpointing on, if asked for; in place.

    Ratios compare the log-probabilities of two passes, which must not differ by chance.
    """
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if getattr(module, "attention_dropout", None):
            module.attention_dropout = 0.0  # type: ignore[assignment]
    if checkpointing:
        base: Any = base_of(model)
        # Renamed in transformers 5.24.
        name = "activation_checkpointing_enable"
        enable = getattr(base, name, None) or base.gradient_checkpointing_enable
        enable({"use_reentrant": False})


def save_version(
    model: Model, folder: Path, version: int, weights: dict[str, Tensor] | None = None
) -> Path:
    """Write a version and return its folder, ``folder / "vN"``.

    One that a killed run left under that name is replaced.

    Args:
        model: With LoRA only the adapter is written, otherwise the whole model.
        folder: Parent of the versions; created if need be.
        version: Not negative.
        weights: Parameter name -> value, where the model's own are split over processes.
    """
    final, draft = folder / f"v{version}", folder / f".v{version}.{os.getpid()}.tmp"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    model.save_pretrained(str(draft), state_dict=weights)
    for file in draft.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    if final.exists():
        shutil.rmtree(final)
    draft.rename(final)
    return final


def load_version(base: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """Return a new model with the weights of a version, adapters merged; ``base`` is left alone.

    Args:
        base: The model that the version started from, without adapters.
        folder: What :func:`save_version` returned.

    Raises:
        ValueError: If there is no version in the folder.
    """
    if (folder / "adapter_config.json").is_file():
        with _peft_asks_under_an_old_name():
            adapted: Any = PeftModel.from_pretrained(copy.deepcopy(base), folder)
        merged: PreTrainedModel = adapted.merge_and_unload()
        merged.train(False)
        return merged
    if (folder / "config.json").is_file():
        whole: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=base.dtype)
        loaded: PreTrainedModel = whole.to(base.device)
        loaded.train(False)
        return loaded
    raise ValueError(f"{folder}: neither an adapter_config.json nor a config.json is there")


def restore_adapter(model: PeftModel, folder: Path) -> None:
    """Give the trained adapter of ``model`` the weights of a version, in place.

    Raises:
        ValueError: If the folder holds no adapter that fits.
    """
    if not (folder / "adapter_config.json").is_file():
        raise ValueError(f"{folder}: no adapter_config.json is there")
    result: Any = set_peft_model_state_dict(model, load_peft_weights(str(folder), device="cpu"))
    if result.unexpected_keys:
        raise ValueError(f"{folder}: {result.unexpected_keys[0]} has no place in the model")


@contextmanager
def _peft_asks_under_an_old_name() -> Iterator[None]:
    """Keep transformers' note on an attribute that peft reads from the user, who cannot mend it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        yield


def base_of(model: Model) -> PreTrainedModel:
    """Return the transformers model, adapter layers included, inside a peft wrapper if any."""
    if isinstance(model, PeftModel):
        base: Any = model.get_base_model()
    else:
        base = model
    inner: PreTrainedModel = base
    return inner
