"""The bridge: stored rollouts become the batch that was sampled, an update becomes a version."""

import numpy as np
import pytest
import torch

from evolve.canonical import raw_view
from evolve.config import Config
from evolve.errors import ConfigError, PolicyError
from evolve.learning import open_model
from evolve.learning.batch import training_batch, useful_shares
from evolve.policy import Ask
from evolve.prompts import Shown, instruct
from evolve.records import Candidate, EvaluationRecord, PromptRecord, RolloutRecord
from evolve.store import Store
from evolve.task import load_task
from tests.evolve.conftest import write_toy_task

ROLLOUTS, ANSWERS = 32, 2


@pytest.fixture(scope="module")
def tiny_llama(tmp_path_factory):
    """A random Llama with a tokenizer that knows the words of a prompt, saved as any model is."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("llama")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    words = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # A prompt of 200 tokens instead of 900 bytes: these tests are about what comes after it.
    task = load_task(write_toy_task(tmp_path_factory.mktemp("toy")))
    prompt = instruct(shown_for(task, raw_view(task.initial)), "line")
    tokenizer.train_from_iterator([prompt] * 3, words)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=tokenizer.get_vocab_size(),
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                max_position_embeddings=1024,
                # The default of 0.02 leaves a random head that no adapter could steer.
                initializer_range=0.15,
                eos_token_id=0,
                bos_token_id=0,
            )
        )
    model.save_pretrained(folder)
    return folder


def config_for(model, task, **training):
    return Config.model_validate(
        {
            "task": str(task),
            "search": {"rollouts": ROLLOUTS, "answers": ANSWERS, "prompts": 3},
            "policy": {"name": f"hf:{model}", "max_new_tokens": 24, "lora_rank": 4},
            "training": {"every": 1, "learning_rate": 1e-2, **training},
        }
    )


@pytest.fixture
def run(tiny_llama, toy_task, tmp_path):
    """A policy with its learner, and a store with the rollouts of one round."""
    config = config_for(tiny_llama, toy_task)
    folder = tmp_path / "run"
    folder.mkdir()
    policy, learner = open_model(config, folder)
    with Store(folder, "create") as store:
        fill(store, load_task(toy_task), policy, round_=0)
        yield config, folder, policy, learner, store


def shown_for(task, view):
    return Shown(task, view, (0.2,) * 3, (1 / 3,) * 3, "", (), ANSWERS, (0, 0, 0))


def fill(store, task, policy, round_):
    """Store a round whose rewards favour completions with many even tokens."""
    view = policy.view(task.initial)
    text, tokens = policy.render(shown_for(task, view))
    asks = [Ask(view, text, tokens, (), (0, round_, slot)) for slot in range(3)]
    if round_ == 0:
        with store.transaction():
            seed = Candidate(0, None, 0, (0, 0), None, "evaluate", "", None, "s", "f0", "")
            store.add_candidates([seed])
            store.add_evaluations([verdict(0, (0.2, 0.2, 0.2))])
    for slot, completions in enumerate(policy.sample(asks, ROLLOUTS, ANSWERS)):
        prompt = store.last_id("prompts") + 1
        rollouts, candidates, verdicts = [], [], []
        for repeat, completion in enumerate(completions):
            id_ = store.last_id("rollouts") + 1 + repeat
            rollouts.append(
                RolloutRecord(
                    id_, prompt, repeat, policy.version, completion.text, completion.tokens,
                    completion.logprobs,
                )
            )  # fmt: skip
            for answer in range(ANSWERS):
                first = store.last_id("candidates") + 1 + len(candidates)
                length = len(completion.tokens)
                span = (min(12 * answer, length), min(12 * answer + 12, length))
                candidates.append(
                    Candidate(
                        first, id_, answer, span, 0, "evaluate", "", None, "s", f"{first}", ""
                    )
                )
                share = np.mean([t % 2 == 0 for t in completion.tokens[slice(*span)] or (1,)])
                verdicts.append(verdict(first, (float(share), 0.1 * slot, 0.5)))
        with store.transaction():
            record = PromptRecord(
                prompt, round_, slot, 0, 0, 0, (), "uniform", 1.0, (1 / 3,) * 3, text, tokens
            )
            store.add_prompt(record, rollouts, candidates)
            store.add_evaluations(verdicts)
    with store.transaction():
        store.close_round(round_, policy.version, 0.0, {})


def verdict(candidate, rewards):
    return EvaluationRecord(candidate, "ok", "all", rewards, {}, (1.0,), "", 0.0, 0.0, 0)


def test_the_batch_holds_what_was_sampled_and_judged(run):
    _, _, _, _, store = run
    batch = training_batch(store, 0, 0, ANSWERS, shows_inspirations=False)
    stored = store.rollouts(0, 0)
    assert len(batch) == 3 * ROLLOUTS
    verdicts = store.evaluations_of_rounds(0, 0)
    candidates = store.candidates_of_rounds(0, 0)
    for rollout, record in zip(batch, stored, strict=True):
        assert rollout.completion_ids == record.tokens
        np.testing.assert_array_equal(rollout.behaviour_logprobs, np.float32(record.logprobs))
        mine = [c for c in candidates if c.rollout == record.id]
        np.testing.assert_array_equal(rollout.rewards, [verdicts[c.id].rewards for c in mine])
        np.testing.assert_array_equal(rollout.reference, [[0.2, 0.2, 0.2]])
    assert [rollout.group for rollout in batch] == sorted(ROLLOUTS * list(range(3)))


def test_sampling_repeats_itself_and_does_not_depend_on_the_batch(run):
    _, _, policy, _, store = run
    (prompt, *_) = store.prompts(0, 0)
    view = policy.view(load_task(run[0].task).initial)
    asks = [Ask(view, prompt.text, prompt.tokens, (), (0, 0, slot)) for slot in range(3)]
    together = list(policy.sample(asks, ROLLOUTS, ANSWERS))
    alone = [next(iter(policy.sample([ask], ROLLOUTS, ANSWERS))) for ask in asks]
    assert [[c.tokens for c in group] for group in together] == [
        [c.tokens for c in group] for group in alone
    ]
    assert len({c.tokens for group in together for c in group}) == 3 * ROLLOUTS
    for completion in together[0]:
        assert len(completion.offsets) == len(completion.tokens) == len(completion.logprobs)


def test_an_update_makes_a_version_that_samples_what_is_rewarded(run):
    _, folder, policy, learner, store = run
    before = even_share(store, 0)
    for round_ in range(8):
        record = learner.update(store, round_)
        assert record.active
        assert record.version == policy.version == round_ + 1
        assert record.stats["probe"] < 1e-3
        assert (folder / record.folder / "adapter_model.safetensors").is_file()
        fill(store, load_task(run[0].task), policy, round_ + 1)
    assert even_share(store, 8) > before + 0.05
    assert [v.version for v in store.versions()] == list(range(1, 9))
    assert len(useful_shares(store, 3, ANSWERS)) == 3


def even_share(store, round_):
    tokens = [t for rollout in store.rollouts(round_, round_) for t in rollout.tokens]
    return np.mean([t % 2 == 0 for t in tokens])


def test_a_resumed_learner_goes_on_bit_for_bit(run):
    config, folder, policy, learner, store = run
    learner.update(store, 0)
    fill(store, load_task(config.task), policy, 1)
    other_policy, other = open_model(config, folder)
    other.load(1)
    learner.update(store, 1)
    expected = {n: p.clone() for n, p in learner.trainer.state_dict()["weights"].items()}
    with store.transaction():
        store._db.execute("DELETE FROM versions WHERE version = 2")
        store.set_meta("learned", 0)
    other.update(store, 1)
    assert other_policy.version == policy.version == 2
    for name, weight in other.trainer.state_dict()["weights"].items():
        assert torch.equal(weight, expected[name])


def test_a_version_that_does_worse_is_rolled_back_to_its_parent(run):
    config, _, policy, learner, store = run
    learner.update(store, 0)
    fill(store, load_task(config.task), policy, 1)
    # What version 1 wrote turns out to be worthless, all of it.
    with store.transaction():
        store._db.execute(
            "UPDATE evaluations SET rewards = NULL WHERE candidate IN"
            " (SELECT c.id FROM candidates c JOIN rollouts r ON r.id = c.rollout"
            " WHERE r.version = 1)"
        )
    record = learner.update(store, 1)
    assert not record.active
    assert record.stats["reason"].startswith("rolled back to v0: useful answers fell from 100.0%")
    assert policy.version == 0
    assert policy.model is learner.base
    assert [v.active for v in store.versions()] == [False]
    assert [kind for _, kind, _ in store.events()] == ["rollback"]
    assert store.meta("learned") == 1


def test_groups_without_signal_leave_the_policy_as_it_is(run):
    _, _, policy, learner, store = run
    with store.transaction():
        store._db.execute("UPDATE evaluations SET rewards = '[0.5, 0.5, 0.5]'")
    record = learner.update(store, 0)
    assert (record.active, policy.version) == (False, 0)
    assert record.stats["reason"] == "no group has signal"
    assert record.stats["dead_groups"] == 3


def test_what_cannot_be_opened_is_said_in_one_line(tiny_llama, toy_task, tmp_path):
    with pytest.raises(ConfigError, match="max_at_k compares whole rollouts"):
        open_model(config_for(tiny_llama, toy_task, method="max_at_k", credit="prefix"), tmp_path)
    with pytest.raises(PolicyError, match="cannot be loaded"):
        open_model(config_for(tmp_path / "none", toy_task), tmp_path)
    _, learner = open_model(config_for(tiny_llama, toy_task), tmp_path)
    with pytest.raises(PolicyError, match="policy version 7"):
        learner.load(7)


def test_a_prompt_that_does_not_fit_is_refused(tiny_llama, toy_task, tmp_path):
    policy, _ = open_model(config_for(tiny_llama, toy_task), tmp_path)
    task = load_task(toy_task)
    long = policy.view(task.initial.replace("    z = y - 3\n", "    z = y - 3\n" * 100))
    with pytest.raises(PolicyError, match="do not fit into the model's context of 1024"):
        policy.render(shown_for(task, long))
