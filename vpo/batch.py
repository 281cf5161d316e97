"""The rollouts of an update as per-token tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from vpo import parallel
from vpo.rollouts import Rollout


class Batch:
    """The rollouts of an update with their per-token tensors, by index."""

    def __init__(
        self,
        rollouts: list[Rollout],
        advantages: list[npt.NDArray[np.floating]],
        skipped_groups: int,
    ) -> None:
        self.rollouts = rollouts
        self.skipped_groups = skipped_groups
        self._advantages = advantages
        self.advantages: list[Tensor] = []
        self.behaviour: list[Tensor] = []
        self.trainer: dict[int, Tensor] = {}
        self.reference: dict[int, Tensor] = {}

    def put(self, device: torch.device) -> None:
        """Make the tensors."""

        def tensor(values: Any) -> Tensor:
            return torch.as_tensor(np.asarray(values, dtype=np.float32), device=device)

        self.advantages = [tensor(row) for row in self._advantages]
        self.behaviour = [tensor(rollout.behaviour_logprobs) for rollout in self.rollouts]


def _as_columns(
    rollouts: Sequence[Rollout], advantages: npt.NDArray[np.floating]
) -> npt.NDArray[np.floating]:
    """Return advantages as (B, 1) or (B, T)."""
    values = np.asarray(advantages, dtype=np.float64)
    longest = max((len(rollout.completion_ids) for rollout in rollouts), default=0)
    if values.shape not in ((len(rollouts),), (len(rollouts), longest)):
        raise ValueError(
            f"advantages has shape {values.shape}, "
            f"({len(rollouts)},) or ({len(rollouts)}, {longest}) is needed"
        )
    if not np.isfinite(values).all():
        raise ValueError("advantages holds a value that is not finite")
    return values[:, None] if values.ndim == 1 else values


def with_signal(rollouts: Sequence[Rollout], advantages: npt.NDArray[np.floating]) -> Batch:
    """Return the rollouts of groups with signal; a group may be spread over processes.

    Raises:
        ValueError: If the advantages do not fit the rollouts or are not finite.
    """
    columns = _as_columns(rollouts, advantages)
    alive = parallel.everywhere(
        {rollout.group for rollout, row in zip(rollouts, columns, strict=True) if row.any()}
    )
    every = parallel.everywhere({rollout.group for rollout in rollouts})
    kept: list[Rollout] = []
    rows = []
    for rollout, row in zip(rollouts, columns, strict=True):
        length = len(rollout.completion_ids)
        if rollout.group in alive and length:
            kept.append(rollout)
            rows.append(np.broadcast_to(row, length) if len(row) == 1 else row[:length])
    return Batch(kept, rows, skipped_groups=len(every - alive))


def padded(flat: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return (B, T) values and the (B, T) mask of the real ones."""
    values = pad_sequence(list(torch.split(flat, list(lengths))), batch_first=True)
    steps = torch.arange(values.shape[1], device=flat.device)
    return values, steps < torch.tensor(lengths, device=flat.device)[:, None]
