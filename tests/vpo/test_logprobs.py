import pytest
import torch

from vpo.logprobs import token_logprobs


@pytest.fixture
def case():
    generator = torch.Generator().manual_seed(0)
    head = torch.nn.Linear(6, 11)
    torch.nn.init.normal_(head.weight, generator=generator)
    hidden = torch.randn(23, 6, generator=generator).requires_grad_()
    targets = torch.randint(0, 11, (23,), generator=generator)
    return head, hidden, targets, torch.randn(2, 23, generator=generator)


def gradients(head, hidden, one, two, weights):
    loss = (one * weights[0] + two * weights[1]).sum()
    return torch.autograd.grad(loss, [hidden, head.weight, head.bias])


@pytest.mark.parametrize("chunk_logits", [1, 11, 50, 1 << 24])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_chunks_change_neither_values_nor_gradients(case, chunk_logits, temperature):
    head, hidden, targets, weights = case
    distribution = torch.distributions.Categorical(logits=head(hidden) / temperature)
    plain = distribution.log_prob(targets), distribution.entropy()
    chunked = token_logprobs(
        hidden, targets, head, 11, temperature=temperature, chunk_logits=chunk_logits
    )
    for one, two in zip(plain, chunked, strict=True):
        torch.testing.assert_close(two, one)
    expected = gradients(head, hidden, *plain, weights)
    for one, two in zip(expected, gradients(head, hidden, *chunked, weights), strict=True):
        torch.testing.assert_close(two, one)


def test_no_more_than_one_chunk_of_logits_is_kept_for_the_backward_pass(case):
    head, hidden, targets, weights = case
    largest, kept = 0, 0

    def watched(rows):
        nonlocal largest
        logits = head(rows)
        largest = max(largest, logits.numel())
        return logits

    def pack(tensor):
        nonlocal kept
        kept = max(kept, tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        one, two = token_logprobs(hidden, targets, watched, 11, chunk_logits=55)
        assert kept <= hidden.numel()  # the hidden states, and none of the 23 x 11 logits
    gradients(head, hidden, one, two, weights)
    assert largest == 55


def test_bfloat16_hidden_states_give_float32_results(case):
    head, hidden, targets, _ = case
    one, two = token_logprobs(hidden.detach().bfloat16(), targets, head.bfloat16(), 11)
    assert one.dtype == two.dtype == torch.float32


def test_nothing_to_score():
    one, two = token_logprobs(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), lambda x: x, 3)
    assert one.shape == two.shape == (0,)
