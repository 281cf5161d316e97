import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.vpo.tiny import llama, mistral, teacher_forced
from vpo.checkpoint import load_checkpoint, save_checkpoint
from vpo.losses import Clip
from vpo.model import attach_lora, base_of
from vpo.rollouts import Rollout
from vpo.sampling import generate
from vpo.trainer import Importance, Trainer, TrainerConfig

CONFIG = TrainerConfig(learning_rate=1e-3, max_step_kl=None)
PROMPTS = [[3, 4, 5], [7], [1, 2, 3, 4, 5, 6], [9, 9]]


def sampled(model, n=4, seed=0, prompts=PROMPTS, drift=0.0):
    """Rollouts of the model; ``drift`` is added noise, as if an older policy had sampled them."""
    rng = np.random.default_rng(seed)
    groups = generate(
        base_of(model), prompts, n, max_new_tokens=9, eos_id=0, seeds=range(len(prompts))
    )
    return [
        Rollout(
            prompt,
            one.ids,
            one.logprobs + drift * rng.normal(size=len(one.ids)).astype(np.float32),
            np.zeros((2, 3)),
            group=number,
        )
        for number, (prompt, group) in enumerate(zip(prompts, groups, strict=True))
        for one in group
    ]


def advantages_for(rollouts, per_token=False, seed=1):
    rng = np.random.default_rng(seed)
    longest = max(len(rollout.completion_ids) for rollout in rollouts)
    return rng.normal(size=(len(rollouts), longest) if per_token else len(rollouts))


def weights(model):
    return [p.detach().clone() for p in model.parameters() if p.requires_grad]


def assert_same(model, other, exactly=True, **tolerance):
    for one, two in zip(weights(model), weights(other), strict=True):
        if exactly:
            assert torch.equal(one, two)
        else:
            torch.testing.assert_close(one, two, **tolerance)


def plain_update(model, reference, optimizer, rollouts, advantages, config):
    """The same update written down without batches: one sequence, one token after the other."""
    count = sum(len(rollout.completion_ids) for rollout in rollouts)
    total = torch.zeros(())
    for rollout, advantage in zip(rollouts, advantages, strict=True):
        start = len(rollout.prompt_ids)
        ids = torch.tensor([[*rollout.prompt_ids, *rollout.completion_ids]])
        logits = model(ids).logits[0] / config.temperature
        with torch.no_grad():
            initial = reference(ids).logits[0] / config.temperature
        for t, token in enumerate(rollout.completion_ids):
            row = logits[start + t - 1].log_softmax(-1)
            d = initial[start + t - 1].log_softmax(-1)[token] - row[token]
            ratio = torch.exp(row[token] - float(rollout.behaviour_logprobs[t]))
            a = float(np.broadcast_to(advantage, len(rollout.completion_ids))[t])
            bounded = torch.clamp(ratio, 1 - config.clip.low, 1 + config.clip.high)
            loss = -torch.minimum(a * ratio, a * bounded)
            if a < 0:
                loss = torch.minimum(loss, torch.tensor(-a * config.clip.dual))
            # rho (-r) grad log pi is the gradient of the KL term, written as a surrogate.
            kl = ratio.detach() * (-d.detach()) * row[token]
            entropy = -(row.exp() * row).sum()
            total = total + loss + config.kl_coef * kl - config.entropy_coef * entropy
    optimizer.zero_grad()
    (total / count).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
    optimizer.step()


@pytest.mark.parametrize("make", [llama, mistral])
@pytest.mark.parametrize("per_token", [False, True])
def test_an_update_is_what_plain_loops_compute(make, per_token):
    config = replace(CONFIG, kl_coef=0.05, entropy_coef=0.02, clip=Clip(dual=1.5))
    model, plain = make(), make()
    rollouts = sampled(model, drift=0.3)
    advantages = advantages_for(rollouts, per_token)
    trainer, reference = Trainer(model, config), copy.deepcopy(plain)
    optimizer = torch.optim.AdamW(
        plain.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    plain_advantages = (
        [row[: len(r.completion_ids)] for row, r in zip(advantages, rollouts, strict=True)]
        if per_token
        else advantages
    )
    # Two updates: at the first the KL to the initial policy is still 0.
    for _ in range(2):
        stats = trainer.update(rollouts, advantages)
        plain_update(plain, reference, optimizer, rollouts, plain_advantages, config)
    assert stats.accepted
    assert stats.kl > 0
    assert stats.clip_fraction > 0
    # AdamW divides by the gradient's size, so single rounding errors of tiny gradients show.
    assert_same(model, plain, exactly=False, rtol=0, atol=2e-5)


def test_the_kl_term_pulls_towards_the_initial_policy():
    config = replace(CONFIG, learning_rate=3e-3, kl_coef=1.0)
    model = llama()
    trainer = Trainer(model, config)
    rollouts = sampled(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=_generator(1)))
    nearly_zero = np.full(len(rollouts), 1e-9)
    kls = [trainer.update(rollouts, nearly_zero).kl for _ in range(8)]
    assert kls[-1] < 0.5 * kls[0]


@pytest.mark.parametrize("changes", [{}, {"importance": Importance()}, {"aggregation": "constant"}])
def test_micro_batches_do_not_change_the_update(changes):
    config = replace(CONFIG, max_length=9, **changes)
    models = []
    for budget in (1, 10_000):
        model = llama()
        rollouts = sampled(model, drift=0.2)
        trainer = Trainer(model, replace(config, token_budget=budget))
        trainer.update(rollouts, advantages_for(rollouts))
        models.append(model)
    for other in models[1:]:
        assert_same(models[0], other, exactly=False, rtol=0, atol=2e-5)


def test_gradient_checkpointing_does_not_change_the_update():
    models = []
    for on in (False, True):
        model = attach_lora(llama(), rank=2, seed=0)
        rollouts = sampled(model)
        trainer = Trainer(model, replace(CONFIG, gradient_checkpointing=on))
        trainer.update(rollouts, advantages_for(rollouts))
        models.append(model)
    assert_same(*models, exactly=False, rtol=0, atol=1e-6)


def test_on_policy_the_ratio_is_one():
    model = llama()
    rollouts = sampled(model)
    stats = Trainer(model, CONFIG).update(rollouts, advantages_for(rollouts))
    assert stats.ratio_mean == pytest.approx(1, abs=1e-4)
    assert stats.ratio_max == pytest.approx(1, abs=1e-3)
    assert stats.effective_samples == pytest.approx(1, abs=1e-4)
    assert stats.kl == pytest.approx(0, abs=1e-6)
    assert stats.clip_fraction == 0
    assert stats.tokens == sum(len(r.completion_ids) for r in rollouts)
    entropies = []
    for rollout in rollouts:
        ids = torch.tensor([[*rollout.prompt_ids, *rollout.completion_ids]])
        with torch.no_grad():
            logits = llama()(ids).logits[0, len(rollout.prompt_ids) - 1 : -1]
        entropies += torch.distributions.Categorical(logits=logits).entropy().tolist()
    assert stats.entropy == pytest.approx(np.mean(entropies), abs=1e-4)


def test_lora_leaves_the_base_alone_and_refers_to_it():
    base = llama()
    untouched = copy.deepcopy(base)
    model = attach_lora(base, rank=4, seed=0)
    trainer = Trainer(model, replace(CONFIG, learning_rate=1e-2))
    rollouts = sampled(model)
    first = trainer.update(rollouts, advantages_for(rollouts))
    second = trainer.update(rollouts, advantages_for(rollouts))
    assert first.kl == pytest.approx(0, abs=1e-6)
    assert second.kl > 1e-4
    with model.disable_adapter():
        one = teacher_forced(model, [1, 2, 3], [4, 5])
    np.testing.assert_allclose(one, teacher_forced(untouched, [1, 2, 3], [4, 5]), atol=1e-6)


def test_groups_without_signal_do_not_count():
    model, other = llama(), llama()
    rollouts = sampled(model)
    advantages = advantages_for(rollouts)
    dead = np.array([rollout.group in (1, 3) for rollout in rollouts])
    advantages[dead] = 0
    stats = Trainer(model, CONFIG).update(rollouts, advantages)
    alive = [rollout for rollout, no in zip(rollouts, dead, strict=True) if not no]
    Trainer(other, CONFIG).update(alive, advantages[~dead])
    assert (stats.skipped_groups, stats.rollouts) == (2, 8)
    assert_same(model, other)


def test_no_signal_at_all_changes_nothing():
    model = llama()
    rollouts = sampled(model)
    stats = Trainer(model, CONFIG).update(rollouts, np.zeros(len(rollouts)))
    assert (stats.accepted, stats.reason, stats.version) == (False, "no group has signal", 0)
    assert_same(model, llama())


def _generator(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("cause", ["step too far", "gradient"])
@pytest.mark.parametrize("lora", [False, True])
def test_a_bad_update_is_undone(cause, lora):
    model = attach_lora(llama(), rank=2, seed=0) if lora else llama()
    trainer = Trainer(model, CONFIG, seed=3)
    rollouts = sampled(model)
    advantages = advantages_for(rollouts)
    trainer.update(rollouts, advantages)
    before, optimizer = weights(model), copy.deepcopy(trainer.state_dict()["optimizer"])
    if cause == "gradient":
        trained = next(p for p in model.parameters() if p.requires_grad)
        handle = trained.register_hook(lambda gradient: gradient * math.nan)
    else:
        trainer.config = replace(CONFIG, max_step_kl=1e-6)
    stats = trainer.update(rollouts, advantages)
    assert not stats.accepted
    assert ("not finite" if cause == "gradient" else "moved the policy by") in stats.reason
    assert stats.version == trainer.version == 1
    assert all(torch.equal(a, b) for a, b in zip(weights(model), before, strict=True))
    after = trainer.state_dict()["optimizer"]["state"]
    for index, state in optimizer["state"].items():
        assert all(torch.equal(value, after[index][name]) for name, value in state.items())
    if cause == "gradient":
        handle.remove()
    trainer.config = CONFIG
    assert trainer.update(rollouts, advantages).accepted


def test_the_step_is_measured_as_a_kl():
    model = llama()
    rollouts = sampled(model)
    stats = Trainer(model, replace(CONFIG, learning_rate=1e-2)).update(
        rollouts, advantages_for(rollouts)
    )
    gaps = np.concatenate(
        [
            teacher_forced(model, r.prompt_ids, r.completion_ids) - r.behaviour_logprobs
            for r in rollouts
        ]
    )
    assert stats.step_kl == pytest.approx(np.mean(np.expm1(gaps) - gaps), rel=1e-3)


@pytest.mark.parametrize("lora", [False, True])
def test_a_resumed_trainer_goes_on_bit_by_bit(tmp_path, lora):
    config = replace(CONFIG, minibatches=2, epochs=2)

    def fresh():
        model = attach_lora(llama(), rank=2, seed=0) if lora else llama()
        return Trainer(model, config, seed=7)

    rollouts = sampled(llama())
    advantages = advantages_for(rollouts)
    straight = fresh()
    for _ in range(2):
        expected = straight.update(rollouts, advantages)
    stopped = fresh()
    stopped.update(rollouts, advantages)
    save_checkpoint(stopped.state_dict(), tmp_path / "trainer.pt")
    resumed = fresh()
    resumed.load_state_dict(load_checkpoint(tmp_path / "trainer.pt"))
    stats = resumed.update(rollouts, advantages)
    assert_same(resumed.model, straight.model)
    assert replace(stats, seconds=0) == replace(expected, seconds=0)
    assert resumed.version == 2


def test_an_engine_that_is_off_is_corrected():
    model = llama()
    rollouts = sampled(model, drift=0.5)
    config = replace(CONFIG, importance=Importance(bound=1.2))
    stats = Trainer(model, config).update(rollouts, advantages_for(rollouts))
    exact = [teacher_forced(llama(), r.prompt_ids, r.completion_ids) for r in rollouts]
    q = np.concatenate(
        [np.exp(e - r.behaviour_logprobs) for e, r in zip(exact, rollouts, strict=True)]
    )
    assert stats.weight_mean == pytest.approx(np.minimum(q, 1.2).mean(), abs=1e-3)
    assert stats.ratio_mean == pytest.approx(1, abs=1e-5)
    masked = Trainer(llama(), replace(config, importance=Importance(action="mask", bound=1.2)))
    share = masked.update(rollouts, advantages_for(rollouts)).weight_zero_fraction
    assert share == pytest.approx((q > 1.2).mean(), abs=0.02)


def test_missing_engine_logprobs_count_as_on_policy():
    model, other = llama(), llama()
    rollouts = sampled(model)
    advantages = advantages_for(rollouts)
    holes = [
        replace(
            r,
            behaviour_logprobs=np.where(
                np.arange(len(r.completion_ids)) == 1, np.nan, r.behaviour_logprobs
            ),
        )
        for r in rollouts
    ]
    assert Trainer(model, CONFIG).update(holes, advantages).accepted
    Trainer(other, CONFIG).update(rollouts, advantages)
    assert_same(model, other, exactly=False, rtol=0, atol=2e-5)


@pytest.mark.parametrize("objective", ["ppo", "cispo", "gspo"])
def test_rewarded_tokens_become_likely(objective):
    model = attach_lora(llama(), rank=8, seed=0)
    config = replace(CONFIG, learning_rate=3e-2, objective=objective, aggregation="sequence_mean")
    trainer = Trainer(model, config)
    means = []
    for step in range(9):
        groups = generate(base_of(model), [[3, 4]], 16, max_new_tokens=5, eos_id=0, seeds=[step])
        samples = next(groups)
        rewards = np.array([sum(token == 20 for token in one.ids) for one in samples], float)
        rollouts = [Rollout([3, 4], s.ids, s.logprobs, np.zeros((1, 1))) for s in samples]
        trainer.update(rollouts, rewards - rewards.mean())
        means.append(rewards.mean())
    assert np.mean(means[-3:]) > np.mean(means[:3]) + 0.5


@pytest.mark.parametrize(
    ("advantages", "message"),
    [(np.zeros(3), r"advantages has shape \(3,\)"), (np.full(16, np.nan), "not finite")],
)
def test_bad_advantages_are_refused(advantages, message):
    model = llama()
    with pytest.raises(ValueError, match=message):
        Trainer(model, CONFIG).update(sampled(model), advantages)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="learning_rate is 0"):
        TrainerConfig(learning_rate=0)
    with pytest.raises(ValueError, match="max_length"):
        TrainerConfig(aggregation="constant")


class Memory:
    """Raises as the device would when a forward pass holds more than ``limit`` padded tokens."""

    def __init__(self, model, limit):
        self.limit, self.refused = limit, 0
        base_of(model).model.register_forward_pre_hook(self, with_kwargs=True)

    def __call__(self, _module, _args, kwargs):
        if torch.is_grad_enabled() and kwargs["input_ids"].numel() > self.limit:
            self.refused += 1
            raise torch.OutOfMemoryError("out of memory")


def test_out_of_memory_halves_the_micro_batches_once():
    model, other = llama(), llama()
    rollouts = sampled(model)
    advantages = advantages_for(rollouts)
    trainer = Trainer(model, replace(CONFIG, token_budget=200))
    memory = Memory(model, limit=100)
    stats = trainer.update(rollouts, advantages)
    assert (stats.accepted, stats.token_budget, memory.refused) == (True, 100, 1)
    Trainer(other, CONFIG).update(rollouts, advantages)
    assert_same(model, other, exactly=False, rtol=0, atol=2e-5)
    # And if that does not help, the update is given up.
    memory.limit = 3
    before = weights(model)
    stats = trainer.update(rollouts, advantages)
    assert stats.reason == "out of memory even with micro-batches of 50 tokens"
    assert all(torch.equal(a, b) for a, b in zip(weights(model), before, strict=True))


def test_an_error_from_outside_leaves_the_weights_alone():
    model = llama()
    rollouts = sampled(model)
    trainer = Trainer(model, replace(CONFIG, epochs=2))
    passes = 0

    def interrupt(*_):
        nonlocal passes
        passes += torch.is_grad_enabled()
        if passes == 2:
            raise KeyboardInterrupt

    model.model.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        trainer.update(rollouts, advantages_for(rollouts))
    assert_same(model, llama())
    assert trainer.version == 0


def test_bfloat16_gives_nearly_the_same_update():
    stats = []
    for bf16 in (False, True):
        model = attach_lora(llama(), rank=2, seed=0)
        rollouts = sampled(model)
        trainer = Trainer(model, replace(CONFIG, bf16=bf16))
        stats.append(trainer.update(rollouts, advantages_for(rollouts)))
        assert all(p.dtype == torch.float32 for p in trainer.state_dict()["weights"].values())
    assert stats[1].accepted
    assert stats[1].loss == pytest.approx(stats[0].loss, abs=0.05)
    assert stats[1].grad_norm == pytest.approx(stats[0].grad_norm, rel=0.3)
    assert stats[1].loss != stats[0].loss


def test_steering_is_as_if_the_trainer_had_been_made_so():
    steered, made = llama(), llama()
    rollouts = sampled(llama())
    advantages = advantages_for(rollouts)
    trainer = Trainer(steered, replace(CONFIG, kl_coef=0.1))
    trainer.steer(entropy_coef=0.05, temperature=0.7)
    one = trainer.update(rollouts, advantages)
    config = replace(CONFIG, kl_coef=0.1, entropy_coef=0.05, temperature=0.7)
    two = Trainer(made, config).update(rollouts, advantages)
    assert one == replace(two, seconds=one.seconds)
    assert_same(steered, made)
