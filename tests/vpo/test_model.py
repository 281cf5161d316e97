import copy

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from tests.vpo.test_trainer import CONFIG, advantages_for, sampled
from tests.vpo.tiny import llama, teacher_forced
from vpo.checkpoint import load_checkpoint, save_checkpoint
from vpo.engine import InProcessEngine
from vpo.model import attach_lora, base_of, load_policy, load_version, restore_adapter, save_version
from vpo.probe import WeightsMismatchError, check_weights, largest_gap, model_scorer
from vpo.trainer import Trainer

PROBES = [[3, 4, 5, 6, 7], [1, 2], [9] * 12]


def trained(model):
    rollouts = sampled(model)
    trainer = Trainer(model, CONFIG)
    assert trainer.update(rollouts, advantages_for(rollouts)).accepted
    return trainer


@pytest.mark.parametrize("lora", [True, False])
def test_the_engine_holds_what_was_trained(tmp_path, lora):
    base = llama()
    engine = InProcessEngine(base)
    model = attach_lora(base, rank=4, seed=0) if lora else base
    trained(model)
    folder = save_version(model, tmp_path, 1)
    assert [file.name for file in tmp_path.iterdir()] == ["v1"]
    assert engine.load(folder, 1, model_scorer(model), PROBES) < 1e-4
    assert engine.version == 1
    (group,) = engine.generate([[3, 4]], 4, max_new_tokens=6, eos_id=0, seeds=[0])
    for one in group:
        expected = teacher_forced(model, [3, 4], one.ids)
        np.testing.assert_allclose(one.logprobs, expected, atol=1e-4)
    engine.reset()
    assert largest_gap(engine.score, model_scorer(llama()), PROBES) == 0


def test_a_stale_engine_is_caught(tmp_path):
    base = llama()
    engine = InProcessEngine(base)
    model = attach_lora(base, rank=4, seed=0)
    before = save_version(model, tmp_path, 0)
    trained(model)
    # The folder of the version before: what a load without effect looks like.
    with pytest.raises(WeightsMismatchError, match="does not hold the trained weights"):
        engine.load(before, 1, model_scorer(model), PROBES)
    assert engine.version == 0


def test_one_weight_left_behind_is_caught():
    model, other = llama(), llama()
    with torch.no_grad():
        other.lm_head.weight[5] += 0.5
    gap = largest_gap(model_scorer(model), model_scorer(other), PROBES)
    assert gap > 0.01
    with pytest.raises(WeightsMismatchError):
        check_weights(model_scorer(other), model_scorer(model), PROBES)


def test_a_probe_that_compares_nothing_is_refused():
    with pytest.raises(ValueError, match="at least two tokens"):
        largest_gap(model_scorer(llama()), model_scorer(llama()), [[1]])


def test_an_engine_takes_no_adapted_base():
    model = attach_lora(llama(), rank=2, seed=0)
    with pytest.raises(ValueError, match="adapters on it"):
        InProcessEngine(base_of(model))


def test_versions_are_loaded_into_copies_and_back(tmp_path):
    base = llama()
    pristine = copy.deepcopy(base)
    model = attach_lora(base, rank=4, seed=0)
    trainer = trained(model)
    first = save_version(model, tmp_path, 1)
    scores = model_scorer(model)(PROBES)
    rollouts = sampled(model)
    trainer.update(rollouts, advantages_for(rollouts))
    assert largest_gap(model_scorer(model), lambda _: scores, PROBES) > 1e-3
    restore_adapter(model, first)
    assert largest_gap(model_scorer(model), lambda _: scores, PROBES) == 0
    merged = load_version(pristine, first)
    assert largest_gap(model_scorer(merged), lambda _: scores, PROBES) < 1e-4
    assert largest_gap(model_scorer(pristine), model_scorer(llama()), PROBES) == 0


def test_a_version_left_by_a_killed_run_is_replaced(tmp_path):
    (tmp_path / "v3").mkdir()
    (tmp_path / "v3" / "junk").touch()
    model = attach_lora(llama(), rank=2, seed=0)
    assert not (save_version(model, tmp_path, 3) / "junk").exists()


def test_adapters_of_equal_seed_are_equal_and_draw_from_no_global_stream():
    before = torch.get_rng_state()
    one, two, three = (attach_lora(llama(), rank=4, seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    states = [
        {n: p for n, p in model.named_parameters() if "lora_A" in n} for model in (one, two, three)
    ]
    assert all(torch.equal(states[0][n], states[1][n]) for n in states[0])
    assert not any(torch.equal(states[0][n], states[2][n]) for n in states[0])


def test_folders_without_a_version_are_refused(tmp_path):
    with pytest.raises(ValueError, match="neither an adapter_config.json nor"):
        load_version(llama(), tmp_path)
    with pytest.raises(ValueError, match=r"no adapter_config.json"):
        restore_adapter(attach_lora(llama(), rank=2, seed=0), tmp_path)


def test_policies_are_loaded_by_folder(tmp_path):
    model = llama()
    model.save_pretrained(tmp_path)
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path)
    loaded, tokenizer = load_policy(tmp_path)
    assert largest_gap(model_scorer(loaded), model_scorer(model), PROBES) == 0
    assert tokenizer.decode([1]) == "b"
    with pytest.raises(ValueError, match="no/such/model"):
        load_policy(tmp_path / "no/such/model")


def test_checkpoints_are_whole_or_absent(tmp_path):
    file = tmp_path / "deep" / "state.pt"
    save_checkpoint({"x": torch.arange(3), "y": {"z": 1}}, file)
    with pytest.raises(TypeError):
        save_checkpoint({"x": (i for i in range(2))}, file)  # a generator cannot be written
    assert load_checkpoint(file)["x"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="no such checkpoint"):
        load_checkpoint(tmp_path / "none.pt")
    (tmp_path / "bad.pt").write_bytes(b"junk")
    with pytest.raises(ValueError, match="not a checkpoint"):
        load_checkpoint(tmp_path / "bad.pt")
