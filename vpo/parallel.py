"""One update on several processes, each with its own share of the rollouts.

Start them with ``accelerate launch`` (or torchrun) and call ``accelerate.PartialState()`` first: it
makes the process group that is used here. Sums of losses and gradients go over all shares, so the
update is that of one process with all rollouts, whatever the shares.

Covered: replicas (every process holds the model), and FSDP2 (``shard``: weights, gradients and the
optimiser's state are split over the processes). Not covered: an engine on several devices; a second
try after running out of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def processes() -> int:
    """Return how many processes share the update."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_first() -> bool:
    """Return whether this process is the one that writes files."""
    return processes() == 1 or dist.get_rank() == 0


def wait_for_all() -> None:
    """Return when every process has come here."""
    if processes() > 1:
        dist.barrier()


def summed(values: Sequence[float], device: torch.device) -> list[float]:
    """Return each value summed over the processes."""
    return _reduced(values, device, dist.ReduceOp.SUM)


def largest(values: Sequence[float], device: torch.device) -> list[float]:
    """Return each value's maximum over the processes."""
    return _reduced(values, device, dist.ReduceOp.MAX)


def everywhere(numbers: set[int]) -> set[int]:
    """Return the union of the processes' sets."""
    if processes() == 1:
        return numbers
    sets: list[set[int]] = [set()] * processes()
    dist.all_gather_object(sets, numbers)
    return set().union(*sets)


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Add the gradients of replicas up, in place; a missing one counts as zero."""
    if processes() == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)


def shard(module: nn.Module, layers: Sequence[nn.Module]) -> None:
    """Split a module's parameters over the processes, ``layers`` one by one, in place (FSDP2)."""
    device = next(module.parameters()).device.type
    mesh = init_device_mesh(device, (processes(),))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)


def whole(tree: Any) -> Any:
    """Return a copy of plain data with every split tensor gathered; all processes must call it."""
    if isinstance(tree, DTensor):
        return tree.full_tensor().detach()
    if isinstance(tree, dict):
        return {key: whole(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [whole(value) for value in tree]
    return tree.detach().clone() if isinstance(tree, Tensor) else tree


def split_like(value: Any, parameter: Tensor) -> Any:
    """Return ``value`` split as ``parameter`` is, if it is a tensor of its shape."""
    if not isinstance(parameter, DTensor):
        return value
    if not isinstance(value, Tensor) or value.shape != parameter.shape:
        return value
    on_device = value.to(parameter.device)
    return distribute_tensor(on_device, parameter.device_mesh, parameter.placements)


def _reduced(values: Sequence[float], device: torch.device, operation: Any) -> list[float]:
    if processes() == 1:
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor, op=operation)
    result: list[float] = tensor.tolist()
    return result
