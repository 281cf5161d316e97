"""Checkpoints that are whole or absent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch


def save_checkpoint(state: dict[str, Any], file: Path) -> None:
    """Write tensors and plain data to ``file``; a crash leaves the former file or the new one."""
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    file.parent.mkdir(parents=True, exist_ok=True)
    with draft.open("wb") as handle:
        torch.save(state, handle)
        handle.flush()
        os.fsync(handle.fileno())
    draft.replace(file)


def load_checkpoint(file: Path) -> dict[str, Any]:
    """Return what :func:`save_checkpoint` wrote, on the CPU; no code in the file is run.

    Raises:
        ValueError: If the file is missing or no checkpoint.
    """
    try:
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ValueError(f"{file}: no such checkpoint") from None
    except Exception as error:
        raise ValueError(f"{file}: not a checkpoint ({type(error).__name__})") from error
    return state
