from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.vpo.tiny import llama
from vpo.integrations.trl import set_utility_reward
from vpo.integrations.verl import overrides, set_utility_score
from vpo.losses import Clip
from vpo.rollouts import Rollout
from vpo.trainer import Trainer, TrainerConfig

# R of the three unit vectors and of two of them: H_3 / 3 and (1 + 1/2 + 1/3 - 1/3) / 3.
CORNERS = np.eye(3)
WORTH = {0: 0.0, 1: 1 / 3, 2: 1 / 2, 3: 11 / 18}


def judge_text(solution, ground_truth, extra_info):
    """The text's words are corners: "0 2" holds two answers."""
    assert (ground_truth, extra_info["split"]) == ("none", "train")
    return CORNERS[[int(word) for word in solution.split()]].reshape(-1, 3)


def test_verl_scores_are_set_utilities():
    score = set_utility_score(judge_text)
    for text in ("", "1", "2 0", "0 1 2", "1 1 1"):
        result = score(
            data_source="x",
            solution_str=text,
            ground_truth="none",
            extra_info={"split": "train"},
            reward_router_address=None,
        )
        assert result["score"] == pytest.approx(WORTH[len(set(text.split()))], abs=1e-9)
        assert result["answers"] == len(text.split())
        assert result["specialisation"] == pytest.approx(result["score"] - result["best"], abs=1e-9)


def test_verl_overrides_name_the_reward_function():
    settings = dict(line.split("=") for line in overrides("mine.py", group_size=4))
    assert settings["reward.custom_reward_function.path"] == "mine.py"
    assert settings["reward.custom_reward_function.name"] == "compute_score"
    assert settings["actor_rollout_ref.rollout.n"] == "4"


def test_trl_rewards_are_set_utilities_and_are_logged():
    log = {}
    reward = set_utility_reward(lambda completions, **_: [CORNERS[:n] for n in completions])
    values = reward([""] * 4, [0, 1, 2, 3], log_metric=log.__setitem__, log_extra=None)
    assert values == pytest.approx([WORTH[n] for n in range(4)], abs=1e-9)
    assert log["set_utility/best"] == pytest.approx(1 / 4)
    with pytest.raises(ValueError, match="1 matrices for 2 completions"):
        set_utility_reward(lambda **_: [CORNERS])(["", ""], ["", ""])


@pytest.fixture(scope="module")
def trl():
    return pytest.importorskip("trl", reason="needs the extra `trl`")


@pytest.fixture
def make_trl_trainer(trl, tmp_path):
    from datasets import Dataset

    llama().save_pretrained(tmp_path / "model")
    words = Tokenizer(models.WordLevel({str(i): i for i in range(30)} | {"<p>": 30, "<e>": 31}))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<p>", eos_token="<e>")

    def make(reward, **options):
        args = trl.GRPOConfig(
            output_dir=str(tmp_path),
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            max_steps=1,
            num_generations=4,
            per_device_train_batch_size=4,
            max_completion_length=9,
            model_init_kwargs={"dtype": "float32"},
            **options,
        )
        return trl.GRPOTrainer(
            model=str(tmp_path / "model"),
            reward_funcs=reward,
            args=args,
            train_dataset=Dataset.from_dict({"prompt": ["1 2 3"] * 4}),
            processing_class=tokenizer,
        )

    return make


def test_a_trl_trainer_takes_a_step_on_the_set_utility(make_trl_trainer):
    seen = {}

    def judge(prompts, completions, completion_ids, **_):
        assert len(prompts) == len(completions) == len(completion_ids) == 4
        rewards = [CORNERS[[token % 3 for token in ids[:3]]] for ids in completion_ids]
        seen["worth"] = [WORTH[len({token % 3 for token in ids[:3]})] for ids in completion_ids]
        return rewards

    trainer = make_trl_trainer(set_utility_reward(judge), logging_steps=1, learning_rate=1e-2)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["reward"] == pytest.approx(np.mean(seen["worth"]), abs=1e-6)
    assert "set_utility/specialisation" in logged
    changed = [
        not torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True)
    ]
    assert all(changed) == (len(set(seen["worth"])) > 1)


CASES = {
    "dapo": ({"loss_type": "dapo"}, {}),
    "dapo with dual clip": ({"loss_type": "dapo", "delta": 1.5}, {"clip": Clip(0.2, 0.28, 1.5)}),
    "grpo": ({"loss_type": "grpo"}, {"aggregation": "sequence_mean"}),
    "dr_grpo": ({"loss_type": "dr_grpo"}, {"aggregation": "constant", "max_length": 9}),
    # TRL bounds the weight from above only, at epsilon_high itself.
    "cispo": (
        {"loss_type": "cispo", "epsilon_high": 1.3},
        {"objective": "cispo", "clip": Clip(1.0, 0.3)},
    ),
    "gspo": (
        {
            "loss_type": "grpo",
            "importance_sampling_level": "sequence",
            "epsilon": 0.05,
            "epsilon_high": 0.07,
        },
        {"objective": "gspo", "aggregation": "sequence_mean", "clip": Clip(0.05, 0.07, None)},
    ),
}


# With the ratio of a sequence TRL spreads token advantages and the KL over it: no parity.
@pytest.mark.parametrize(
    ("case", "beta", "per_token"),
    [
        setting
        for case in CASES
        for setting in [(case, 0.0, False), (case, 0.3, True)]
        if setting != ("gspo", 0.3, True)
    ],
)
def test_losses_and_gradients_are_those_of_trl(make_trl_trainer, case, beta, per_token):
    theirs, ours = CASES[case]
    options = {"epsilon": 0.2, "epsilon_high": 0.28, "beta": beta} | theirs
    other = make_trl_trainer(lambda completions, **_: [0.0] * len(completions), **options)
    rollouts, advantages, inputs = batch(per_token)
    other.model.train()
    other.current_gradient_accumulation_steps = 1
    loss = other.compute_loss(other.model, inputs)
    loss.backward()

    model = llama()
    config = TrainerConfig(kl_coef=beta, clip=Clip(0.2, 0.28, None), max_step_kl=None)
    trainer = Trainer(model, replace(config, **ours), reference=reference())
    gradients = {}
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda p, name=name: gradients.__setitem__(name, p.grad.clone())
        )
    stats = trainer.update(rollouts, advantages)
    assert stats.loss == pytest.approx(float(loss.detach()), abs=1e-5)
    assert gradients.keys() == dict(other.model.named_parameters()).keys()
    for name, parameter in other.model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-5, atol=1e-5)


def reference():
    model = llama()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    return model


def batch(per_token):
    """The same batch as rollouts and as TRL's padded tensors."""
    rng = np.random.default_rng(0)
    prompts = [[1, 2, 3], [1, 2, 3], [4, 5], [4, 5]]
    lengths = [9, 4, 1, 7]
    completions = [rng.integers(0, 30, n).tolist() for n in lengths]
    rollouts, old, ref = [], [], []
    for group, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        ids = torch.tensor([prompt + completion])
        targets = torch.tensor(completion)[:, None]
        with torch.no_grad():
            scores = [
                m(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1).gather(1, targets)[:, 0]
                for m in (llama(), reference())
            ]
        old.append(scores[0] + 0.3 * torch.from_numpy(rng.normal(size=len(completion))).float())
        ref.append(scores[1])
        rollouts.append(
            Rollout(prompt, completion, old[-1].numpy(), np.zeros((1, 1)), group=group // 2)
        )
    advantages = rng.normal(size=(4, 9) if per_token else 4)

    def pad(rows, left=False):
        return torch.nn.utils.rnn.pad_sequence(
            [torch.as_tensor(row) for row in rows],
            batch_first=True,
            padding_side="left" if left else "right",
        )

    return (
        rollouts,
        advantages,
        {
            "prompt_ids": pad(prompts, left=True),
            "prompt_mask": pad([[1] * len(prompt) for prompt in prompts], left=True),
            "completion_ids": pad(completions),
            "completion_mask": pad([[1] * n for n in lengths]),
            "advantages": torch.from_numpy(advantages).float(),
            "old_per_token_logps": pad(old),
            "ref_per_token_logps": pad(ref),
            "num_items_in_batch": torch.tensor(float(sum(lengths))),
        },
    )
