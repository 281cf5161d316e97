import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import PreTrainedModel

from tests.vpo.tiny import MODELS, llama, teacher_forced
from vpo.decoding import PlainDecoder, SharedPromptDecoder, open_decoder
from vpo.sampling import generate

PROMPTS = [[3, 4, 5], [7], [1, 2, 3, 4, 5, 6, 7, 8], [9, 9]]


def sample(model: PreTrainedModel, prompts=PROMPTS, n=3, **options):
    options = {"max_new_tokens": 12, "eos_id": 0, "seeds": range(len(prompts))} | options
    return list(generate(model, prompts, n, **options))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_are_those_of_the_whole_sequence(kind, temperature):
    model = MODELS[kind]()
    for prompt, group in zip(PROMPTS, sample(model, temperature=temperature), strict=True):
        for one in group:
            expected = teacher_forced(model, prompt, one.ids, temperature)
            np.testing.assert_allclose(one.logprobs, expected, atol=2e-4)


def test_only_models_that_attend_to_everything_share_prompts():
    kinds = {name: type(open_decoder(make(), [[1]], 1)) for name, make in MODELS.items()}
    assert kinds.pop("mistral") is PlainDecoder
    assert set(kinds.values()) == {SharedPromptDecoder}


def test_results_do_not_depend_on_the_batch():
    model = llama()
    reference = sample(model, n=8)
    assert len({one.ids for group in reference for one in group}) > 20
    alone = [sample(model, [prompt], n=8, seeds=[seed])[0] for seed, prompt in enumerate(PROMPTS)]
    reverse = sample(model, PROMPTS[::-1], n=8, seeds=[3, 2, 1, 0])[::-1]
    for other in (sample(model, n=8, batch_size=8), alone, reverse):
        for one, two in zip(itertools.chain(*reference), itertools.chain(*other), strict=True):
            assert one.ids == two.ids
            assert np.array_equal(one.logprobs, two.logprobs)


def test_a_rollout_does_not_depend_on_how_many_there_are():
    model = llama()
    few, many = sample(model, n=2), sample(model, n=7)
    assert [[o.ids for o in group] for group in few] == [
        [o.ids for o in group[:2]] for group in many
    ]


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_pairs_of_tokens_follow_the_model(kind):
    model = MODELS[kind]()
    prompt, draws = [3, 4, 5], 6000
    (group,) = sample(model, [prompt], n=draws, max_new_tokens=2, eos_id=31, seeds=[5])
    pairs = [one.ids for one in group]
    counts = {pair: pairs.count(pair) for pair in set(pairs)}
    # Enumerated: every first token, then every second one unless the first ends the completion.
    every = [(31,)] + [(a, b) for a in range(31) for b in range(32)]
    firsts = np.exp([teacher_forced(model, prompt, [a])[0] for a in range(32)])
    with torch.no_grad():
        seconds = [model(torch.tensor([[*prompt, a]])).logits[0, -1].softmax(-1) for a in range(32)]
    expected = np.array(
        [firsts[p[0]] * (float(seconds[p[0]][p[1]]) if len(p) == 2 else 1) for p in every]
    )
    observed = np.array([counts.get(pair, 0) for pair in every])
    rare = draws * expected < 8
    assert (
        chisquare(
            np.append(observed[~rare], observed[rare].sum()),
            np.append(expected[~rare], expected[rare].sum()) * draws / expected.sum(),
        ).pvalue
        > 1e-3
    )


def test_a_completion_ends_with_its_end_token():
    ends = (0, 1, 2, 3, 4)
    samples = [one for group in sample(llama(), n=20, eos_id=ends) for one in group]
    assert {one.finished for one in samples} == {True, False}
    for one in samples:
        assert len(one.ids) == len(one.logprobs)
        assert not set(one.ids[:-1]) & set(ends)
        assert one.finished == (one.ids[-1] in ends)
        assert one.finished or len(one.ids) == 12


def test_the_callers_state_is_left_alone():
    model = llama().train()
    before = torch.get_rng_state()
    sample(model)
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": [1]}, "4 prompts, 1 seeds"),
        ({"prompts": [[1], []], "seeds": [0, 1]}, "a prompt is empty"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"n": 0}, "n=0"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        sample(llama(), **change)
