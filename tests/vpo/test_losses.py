import math

import pytest
import torch

from vpo.losses import Clip, aggregate, importance_weights, kl_loss, policy_loss

ONES = torch.ones(1, 1, dtype=torch.bool)


def at_ratio(ratio, advantage, objective="ppo", clip=Clip()):  # noqa: B008
    """Loss and its derivative by log pi, of one token."""
    logprob = torch.tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    result = policy_loss(
        objective,
        logprob,
        torch.zeros(1, 1, dtype=torch.float64),
        torch.tensor([[advantage]], dtype=torch.float64),
        ONES,
        clip,
    )
    (gradient,) = torch.autograd.grad(result.loss.sum(), logprob)
    return float(result.loss.detach()), float(gradient), bool(result.clipped)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient", "clipped"),
    [
        (1.1, 2.0, -2.2, -2.2, False),
        (1.5, 2.0, -2.56, 0.0, True),  # 1 + 0.28
        (0.5, 2.0, -1.0, -1.0, False),  # a good token that became rarer is pulled back
        (0.5, -2.0, 1.6, 0.0, True),  # 1 - 0.2
        (1.5, -2.0, 3.0, 3.0, False),
        (4.0, -2.0, 6.0, 0.0, True),  # dual clip: 3
    ],
)
def test_ppo_by_hand(ratio, advantage, loss, gradient, clipped):
    assert at_ratio(ratio, advantage) == (
        pytest.approx(loss),
        pytest.approx(gradient, abs=1e-12),
        clipped,
    )


def test_without_dual_clip_bad_tokens_are_not_bounded():
    assert at_ratio(4.0, -2.0, clip=Clip(dual=None))[0] == pytest.approx(8.0)


@pytest.mark.parametrize(("ratio", "weight"), [(1.1, 1.1), (9.0, 1.28), (0.1, 0.8)])
def test_cispo_bounds_the_weight_and_keeps_the_gradient(ratio, weight):
    loss, gradient, clipped = at_ratio(ratio, 2.0, "cispo")
    assert loss == pytest.approx(-2 * weight * math.log(ratio))
    assert gradient == pytest.approx(-2 * weight)
    assert clipped == (ratio != weight)


def test_gspo_uses_the_geometric_mean_of_the_sequence():
    logprobs = torch.tensor([[0.3, -0.1, 0.2, 7.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, True, False]])
    old, advantages = torch.zeros_like(logprobs), torch.full((1, 1), 2.0, dtype=torch.float64)
    clip = Clip(0.5, 0.5)
    result = policy_loss("gspo", logprobs, old, advantages, mask, clip)
    mean = math.exp(0.4 / 3)
    torch.testing.assert_close(result.loss[0, :3], torch.full((3,), -2 * mean).double())

    # Its gradient is that of -A s with s = exp(mean of the log-ratios), differentiated as it is.
    average = aggregate(result.loss, mask, "sequence_mean", tokens=3, sequences=1, max_length=0)
    (gradient,) = torch.autograd.grad(average, logprobs)
    (expected,) = torch.autograd.grad(-2 * torch.exp(logprobs[0, :3].mean()), logprobs)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("on_policy", [True, False])
def test_the_gradient_of_the_kl_is_exact_in_expectation(on_policy):
    generator = torch.Generator().manual_seed(1)
    logits, reference, other = torch.randn(3, 7, generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    old = logits.detach() if on_policy else other
    logprobs, behaviour = logits.log_softmax(-1), old.log_softmax(-1)
    ratio = (logprobs - behaviour).exp()
    estimate = behaviour.exp() @ kl_loss(logprobs, reference.log_softmax(-1), ratio)
    true = torch.distributions.kl_divergence(
        torch.distributions.Categorical(logits=logits),
        torch.distributions.Categorical(logits=reference),
    )
    torch.testing.assert_close(estimate, true)
    for one, two in zip(
        torch.autograd.grad(estimate, logits, retain_graph=True),
        torch.autograd.grad(true, logits),
        strict=True,
    ):
        torch.testing.assert_close(one, two)


def test_importance_weights_by_hand():
    trainer = torch.log(torch.tensor([[1.0, 4.0, 0.5], [1.0, 3.0, 5.0]]))
    engine = torch.zeros(2, 3)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    nan = engine.clone()
    nan[0, 1] = math.nan

    def weights(engine=engine, **options):
        return importance_weights(trainer, engine, mask, bound=2.5, **options)[mask].tolist()

    assert weights() == pytest.approx([1, 2.5, 0.5, 1, 2.5])
    assert weights(action="mask") == pytest.approx([1, 0, 0.5, 1, 0])
    assert weights(level="sequence") == pytest.approx([2, 2, 2, 2.5, 2.5])
    assert weights(level="sequence", action="mask") == pytest.approx([2, 2, 2, 0, 0])
    assert weights(nan) == pytest.approx([1, 1, 0.5, 1, 2.5])


def test_aggregations_by_hand_and_by_parts():
    values = torch.tensor([[1.0, 2.0, 3.0], [10.0, 99.0, 99.0]])
    mask = torch.tensor([[True, True, True], [True, False, False]])
    expected = {"token_mean": 16 / 4, "sequence_mean": (2 + 10) / 2, "constant": 16 / (2 * 5)}
    for how, mean in expected.items():
        globals_ = {"tokens": 4, "sequences": 2, "max_length": 5}
        assert float(aggregate(values, mask, how, **globals_)) == pytest.approx(mean)
        parts = [
            float(aggregate(values[i : i + 1], mask[i : i + 1], how, **globals_)) for i in (0, 1)
        ]
        assert sum(parts) == pytest.approx(mean)
