"""The set utility on tensors: same device, same dtype, differentiable in the rewards.

The weights come from :mod:`vpo.simplex` and are moved to the device once a call; the closed forms
for one and two answers are evaluated there. Where :mod:`vpo.utility` has further closed forms (two
and three objectives) this module takes the quadrature, so that nothing leaves the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from vpo import simplex
from vpo.advantages import compute_advantages
from vpo.utility import set_utility as numpy_set_utility

if TYPE_CHECKING:
    from torch import Tensor

# Values at the nodes that are held at a time, so that memory stays bounded.
_CHUNK_VALUES = 1 << 24


def set_utility(
    rewards: Tensor, *, alpha: float = 1.0, n_weights: int = 1024, seed: int = 0
) -> Tensor:
    """Return the (n,) utilities R(S) of (n, m, k) rewards under linear scalarisation.

    Args:
        rewards: Floating point tensor on any device; m and k at least 1.
        alpha: Concentration of the weights, positive.
        n_weights: Nodes of the quadrature, a power of 2.
        seed: Seed of the quadrature: the nodes are those of :func:`vpo.utility.set_utility`.

    Raises:
        ValueError: If the shape or the dtype does not fit.
    """
    if rewards.ndim != 3 or 0 in rewards.shape[1:] or not rewards.is_floating_point():
        raise ValueError(
            f"rewards: {rewards.dtype} {tuple(rewards.shape)}, a floating (n, m, k) is needed"
        )
    n, m, k = rewards.shape
    if k == 1:
        return rewards[:, :, 0].amax(dim=1)
    if m == 1:
        return rewards[:, 0].mean(dim=1)
    if m == 2 and alpha == 1.0:
        return _best_of_two(rewards)
    rule = simplex.dirichlet(k, alpha, n_weights, seed)
    weights = torch.tensor(rule.weights, device=rewards.device, dtype=rewards.dtype)
    # The mean of the replicates, as one vector of coefficients.
    coefficients = torch.tensor(
        rule.coefficients.reshape(-1) / simplex.REPLICATES,
        device=rewards.device,
        dtype=rewards.dtype,
    )
    chunk = max(1, _CHUNK_VALUES // (m * len(weights)))
    parts = [(part @ weights.T).amax(dim=1) @ coefficients for part in torch.split(rewards, chunk)]
    return torch.cat(parts) if n else rewards.new_zeros(0)


def advantages(rewards: Tensor, group_ids: Tensor, **options: Any) -> Tensor:
    """Return the (n,) advantages of (n, m, k) rewards, on their device and in their dtype.

    A detour over the CPU, in double precision: an advantage takes no gradient and the noise floor
    needs the replicates.

    Args:
        rewards: (n, m, k) tensor.
        group_ids: (n,) tensor of integers.
        options: As for :func:`vpo.advantages.compute_advantages`.
    """
    matrices = rewards.detach().to("cpu", torch.float64).numpy()
    result = compute_advantages(matrices, group_ids.detach().cpu().numpy(), **options)
    return torch.tensor(result.advantages, device=rewards.device, dtype=rewards.dtype)


def utilities(rewards: Tensor, **options: Any) -> Tensor:
    """Return the (n,) values of :func:`vpo.utility.set_utility`, every option allowed.

    Computed on the CPU in double precision and returned on the device and in the dtype of
    ``rewards``; not differentiable.
    """
    matrices = rewards.detach().to("cpu", torch.float64).numpy()
    value = numpy_set_utility(matrices, **options).value
    return torch.tensor(value, device=rewards.device, dtype=rewards.dtype)


def _best_of_two(rows: Tensor) -> Tensor:
    # The race of exponentials of vpo.exact.best_of_two, along diagonals of its table.
    a, b = rows[:, 0], rows[:, 1]
    descending = (a - b).sort(dim=1, descending=True).values.T  # (k, n)
    k = len(descending)
    gains, losses = descending.clamp(min=0.0), (-descending.flip(0)).clamp(min=0.0)
    diagonal = torch.zeros_like(descending[:1])
    for d in range(1, k + 1):
        first = torch.zeros_like(diagonal[:1])
        last = diagonal[-1:] + gains[d - 1 : d]
        gain, loss = gains[: d - 1], losses[: d - 1].flip(0)
        both = gain + loss
        # Where both are zero the two neighbours are equal, and any share will do.
        share = torch.where(both > 0.0, gain / both.clamp(min=torch.finfo(both.dtype).tiny), 0.0)
        between = share * diagonal[1:] + (1.0 - share) * diagonal[:-1]
        diagonal = torch.cat([first, between, last])
    positives = (descending > 0.0).sum(dim=0, keepdim=True)
    return b.mean(dim=1) + diagonal.gather(0, positives)[0] / k
