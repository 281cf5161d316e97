import numpy as np
import pytest
import torch

from tests.vpo.tiny import MODELS, teacher_forced
from vpo.decoding import attends_to_everything
from vpo.model import attach_lora
from vpo.packing import Costs, collate, make_rows, micro_batches
from vpo.scoring import TokenScorer

CHEAP_ATTENTION, DEAR_ATTENTION = Costs(token=1.0, pair=0.0), Costs(token=1.0, pair=1.0)


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    prompts = [[3, 4, 5], [6], [3, 4, 5], [7, 8, 9, 10, 11], [3, 4, 5], [6]]
    return prompts, [rng.integers(0, 32, int(n)).tolist() for n in (4, 1, 9, 3, 1, 6)]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("budget", [1, 40, 1000])
def test_scores_are_those_of_the_plain_sequences(batch, kind, budget):
    model = MODELS[kind]()
    scorer, scores = TokenScorer(model, 0.8), {}
    shared = attends_to_everything(model)
    rows = make_rows(*batch, shared=shared, costs=CHEAP_ATTENTION, budget=budget)
    assert any(len(row.members) > 1 for row in rows) == (shared and budget > 1)
    for group in micro_batches(rows, budget):
        micro = collate(group, model.device, model.dtype)
        flat, _ = scorer(micro)
        scores |= dict(zip(micro.members, torch.split(flat, list(micro.lengths)), strict=True))
    for index, (prompt, completion) in enumerate(zip(*batch, strict=True)):
        expected = teacher_forced(model, prompt, completion, 0.8)
        np.testing.assert_allclose(scores[index].detach().numpy(), expected, atol=2e-4)


@pytest.mark.parametrize("shared", [True, False])
def test_every_rollout_is_in_one_row(batch, shared):
    rows = make_rows(*batch, shared=shared, costs=CHEAP_ATTENTION, budget=12)
    assert sorted(member for row in rows for member in row.members) == list(range(6))
    assert [len(row) for row in rows] == sorted(len(row) for row in rows)
    for row in rows:
        for member, completion in zip(row.members, row.completions, strict=True):
            assert (list(row.prompt), completion) == (batch[0][member], batch[1][member])


def test_prompts_are_shared_as_far_as_attention_allows():
    prompts, completions = [[1] * 20] * 8, [[2] * 5] * 8

    def most(costs, budget=1000):
        rows = make_rows(prompts, completions, shared=True, costs=costs, budget=budget)
        return max(len(row.members) for row in rows)

    assert most(CHEAP_ATTENTION) == 8
    # (20 + 5 c)^2 / c is smallest at c = 4.
    assert most(DEAR_ATTENTION) == 4
    assert most(CHEAP_ATTENTION, budget=30) == 2


def test_micro_batches_respect_the_budget(batch):
    rows = make_rows(*batch, shared=False, costs=CHEAP_ATTENTION, budget=16)
    groups = list(micro_batches(rows, 16))
    assert [row for group in groups for row in group] == rows
    assert len(groups) > 2
    for group in groups:
        assert len(group) == 1 or max(map(len, group)) * len(group) <= 16


def test_a_model_with_something_after_its_head_is_refused():
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        initializer_range=0.5,
        final_logit_softcapping=1.0,
    )
    with pytest.raises(ValueError, match="Gemma2ForCausalLM: its logits are not head"):
        TokenScorer(Gemma2ForCausalLM(config), 1.0)


def test_adapters_are_scored_too(batch):
    model = attach_lora(MODELS["llama"](), rank=2, seed=0)
    rows = make_rows(*batch, shared=True, costs=CHEAP_ATTENTION, budget=1000)
    micro = collate(rows, model.device, torch.float32)
    scorer = TokenScorer(model, 1.0)
    before, _ = scorer(micro)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.1)
    after, _ = scorer(micro)
    assert not torch.allclose(before, after)
    after.sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
