"""Tensors in, tensors out: the numbers of the numpy core, with gradients."""

import numpy as np
import pytest
import torch

from vpo import torch_utility
from vpo.advantages import compute_advantages
from vpo.utility import set_utility

# A GPU joins in where there is one.
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def random(*shape, seed=0):
    """Rewards on a sphere: no row dominates another, so that numpy has none to drop."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(*shape, generator=generator, dtype=torch.float64)
    return rows / rows.norm(dim=-1, keepdim=True) if shape[-1] > 1 else rows


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize(("m", "k"), [(1, 4), (2, 6), (2, 1), (5, 1), (3, 4), (6, 9)])
def test_values_are_those_of_numpy(m, k, alpha, device):
    rewards = random(20, m, k)
    got = torch_utility.set_utility(rewards.to(device), alpha=alpha, seed=3)
    expected = set_utility(rewards.numpy(), alpha=alpha, seed=3).value
    np.testing.assert_allclose(got.cpu().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("m", "k"), [(4, 2), (4, 3)])
def test_where_numpy_is_exact_the_quadrature_is_close(m, k):
    rewards = random(30, m, k)
    got = torch_utility.set_utility(rewards, n_weights=4096)
    np.testing.assert_allclose(got.numpy(), set_utility(rewards.numpy()).value, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("m", "k"), [(2, 3), (3, 4), (1, 2), (3, 1)])
def test_device_and_dtype_stay(dtype, m, k):
    rewards = random(8, m, k).to(dtype)
    ids = torch.tensor([0] * 4 + [1] * 4)
    results = [
        torch_utility.set_utility(rewards),
        torch_utility.utilities(rewards, lambda_d=2.0),
        torch_utility.advantages(rewards, ids),
    ]
    for result in results:
        assert (result.dtype, result.device, result.shape) == (dtype, rewards.device, (8,))
    expected = set_utility(rewards.double().numpy()).value
    # Rounding of the rewards is in both; what is left is arithmetic in that precision.
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6}.get(dtype, 2e-2)
    np.testing.assert_allclose(results[0].double().numpy(), expected, atol=tolerance)


@pytest.mark.parametrize(("m", "k", "alpha"), [(1, 3, 1.0), (2, 5, 1.0), (4, 3, 1.0), (3, 4, 0.7)])
def test_gradients_are_those_of_finite_differences(m, k, alpha):
    rewards = random(3, m, k, seed=1).requires_grad_()

    def value(x):
        return torch_utility.set_utility(x, alpha=alpha, n_weights=64)

    assert torch.autograd.gradcheck(value, [rewards], eps=1e-7, atol=1e-6)


def test_gradients_are_shares_of_the_weights():
    """dR/dr_sj = E[w_j; s wins]: at least 0, and 1 in all."""
    rewards = random(5, 3, 4, seed=2).requires_grad_()
    (gradient,) = torch.autograd.grad(
        torch_utility.set_utility(rewards, n_weights=4096).sum(), rewards
    )
    np.testing.assert_allclose(gradient.sum((1, 2)).numpy(), 1.0, atol=1e-9)
    assert gradient.min() > -1e-3
    # Euler: R is homogeneous of degree 1.
    np.testing.assert_allclose(
        (gradient * rewards).sum((1, 2)).detach().numpy(),
        set_utility(rewards.detach().numpy(), n_weights=4096).value,
        atol=1e-9,
    )


def test_two_equal_rows_have_a_finite_gradient():
    rewards = torch.full((1, 2, 4), 0.5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch_utility.set_utility(rewards).sum(), rewards)
    assert torch.isfinite(gradient).all()
    assert gradient.sum() == pytest.approx(1.0)


def test_options_reach_the_core():
    rewards, references = random(6, 3, 4), [np.full((1, 4), 0.5)] * 6
    options = {"references": references, "lambda_d": 1.5, "scalarizer": "chebyshev", "seed": 2}
    got = torch_utility.utilities(rewards, **options)
    np.testing.assert_array_equal(got.numpy(), set_utility(rewards.numpy(), **options).value)
    ids = torch.tensor([0, 0, 0, 1, 1, 1])
    got = torch_utility.advantages(rewards, ids, estimator="max_at_k", subset=2)
    expected = compute_advantages(rewards.numpy(), ids.numpy(), estimator="max_at_k", subset=2)
    np.testing.assert_array_equal(got.numpy(), expected.advantages)


def test_many_sets_are_taken_in_chunks(monkeypatch):
    rewards = random(50, 3, 5)
    whole = torch_utility.set_utility(rewards)
    monkeypatch.setattr(torch_utility, "_CHUNK_VALUES", 1)
    torch.testing.assert_close(torch_utility.set_utility(rewards), whole, rtol=0, atol=1e-12)
    assert torch_utility.set_utility(rewards[:0]).shape == (0,)


@pytest.mark.parametrize(
    "bad", [torch.zeros(3, 4), torch.zeros(2, 0, 3), torch.zeros(2, 2, 2, dtype=torch.long)]
)
def test_bad_tensors_are_named(bad):
    with pytest.raises(ValueError, match=r"a floating \(n, m, k\) is needed"):
        torch_utility.set_utility(bad)
