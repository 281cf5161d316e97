"""Training that fails inside a campaign: an update is dropped or redone, and the search goes on."""

import math

import pytest
import torch

from evolve import launch
from evolve.config import Config
from evolve.errors import StoreError
from evolve.learning.batch import training_batch
from evolve.records import JUDGE_ERROR, Candidate, EvaluationRecord, PromptRecord, RolloutRecord
from evolve.store import Store
from evolve.task import load_task
from tests.evolve.faults import contents, remount, small_disk
from vpo.advantages import compute_advantages
from vpo.utility import set_utility


class Silent:
    """An observer that keeps the versions."""

    def __init__(self):
        self.versions = []

    def on_version(self, record):
        self.versions.append(record)

    def __getattr__(self, _name):
        return lambda *_: None


def config_for(task):
    return Config.model_validate(
        {
            "task": str(task),
            "budget": {"evaluations": 60},
            "search": {"prompts": 4, "rollouts": 4},
            "training": {"every": 1, "batch": 1000},
        }
    )


@pytest.fixture
def campaign(toy_task, tmp_path, monkeypatch):
    """Run a small campaign with the embedded model, its learner broken by ``fault``."""

    def run(fault):
        real = launch.open_policy

        def opened(config, folder):
            policy, learner = real(config, folder)
            fault(learner)
            return policy, learner

        monkeypatch.setattr(launch, "open_policy", opened)
        observer = Silent()
        launch.start(config_for(toy_task), tmp_path / "run", observer)
        with Store(tmp_path / "run") as store:
            evaluated = len(list(store.evaluations())) - 1
        return observer.versions, evaluated

    return run


@pytest.mark.slow
def test_nan_in_a_step_drops_the_update_and_the_next_one_learns(campaign):
    steps = 0

    def fault(learner):
        weight = next(p for p in learner.trainer.model.parameters() if p.requires_grad)

        def spoil(gradient):
            nonlocal steps
            steps += 1
            return gradient * math.nan if steps == 1 else gradient

        weight.register_hook(spoil)

    versions, evaluated = campaign(fault)
    assert evaluated == 60
    assert versions[0].stats["reason"] == "the gradient is not finite"
    assert (versions[0].active, versions[0].folder) == (False, "")
    # The one after it starts from the same weights as if nothing had happened.
    later = [version for version in versions[1:] if version.active]
    assert later
    assert later[0].parent == 0
    assert all(math.isfinite(v.stats["kl"]) for v in later if v.stats.get("kl") is not None)


@pytest.mark.slow
def test_memory_that_runs_out_halves_the_micro_batches_once(campaign):
    refused = []

    def fault(learner):
        trainer = learner.trainer
        start = trainer._budget

        def forward(_module, args, kwargs):
            ids = kwargs.get("input_ids", args[0] if args else None)
            # An allocator's own error, as it comes from a device that is full.
            if torch.is_grad_enabled() and trainer._budget == start and ids is not None:
                refused.append(ids.numel())
                torch.empty(1 << 50)

        trainer.model.get_base_model().model.register_forward_pre_hook(forward, with_kwargs=True)

    versions, evaluated = campaign(fault)
    assert evaluated == 60
    assert len(refused) == 1
    updated = [version for version in versions if version.stats.get("token_budget")]
    assert updated[0].active
    assert len({version.stats["token_budget"] for version in updated}) == 1


@pytest.mark.slow
def test_a_disk_too_small_for_a_version_is_told_and_the_run_resumes(toy_task, tmp_path):
    launch.start(config_for(toy_task), tmp_path / "undisturbed", Silent())
    with small_disk(tmp_path / "disk", "1500k") as disk:
        folder = disk / "run"
        told = r"policy version 1 cannot be written \(\d\.\d MiB are free\)"
        with pytest.raises(StoreError, match=told):
            launch.start(config_for(toy_task), folder, Silent())
        assert not list((folder / "adapters").iterdir())
        remount(disk, "size=300m")
        launch.resume(folder, Silent())
        assert rows(folder) == rows(tmp_path / "undisturbed")


def rows(folder):
    found = contents(folder)
    # What a version's training took is measured.
    found["versions"] = [row[:4] for row in found["versions"]]
    return found


def unfinished(status, raw):
    return EvaluationRecord(1, status, "all", None, raw, None, "", 0.0, 0.0, 0)


@pytest.fixture
def judged(toy_task, tmp_path):
    """The batch of a prompt with two rollouts of one answer; the verdict on the first is open."""
    folder = tmp_path / "run"
    folder.mkdir()

    def make(verdict):
        (folder / "run.db").unlink(missing_ok=True)
        with Store(folder, "create") as store, store.transaction():
            seed = Candidate(0, None, 0, (0, 0), None, "evaluate", "", None, "s", "f0", "")
            good = EvaluationRecord(0, "ok", "all", (0.2, 0.4, 0.6), {}, (1.0,), "", 0.0, 0.0, 0)
            store.add_candidates([seed])
            prompt = PromptRecord(0, 0, 0, 0, 0, 0, (), "uniform", 1.0, (1 / 3,) * 3, "p", (1, 2))
            rollouts = [RolloutRecord(i, 0, i, 0, "c", (3, 4), (-0.1, -0.2)) for i in (0, 1)]
            answers = [
                Candidate(i + 1, i, 0, (0, 2), 0, "evaluate", "", None, "s", f"f{i + 1}", "")
                for i in (0, 1)
            ]
            store.add_prompt(prompt, rollouts, answers)
            other = EvaluationRecord(2, "ok", "all", (0.5, 0.5, 0.5), {}, (1.0,), "", 0.0, 0.0, 0)
            store.add_evaluations([good, verdict, other])
            store.close_round(0, 0, 0.0, {})
        with Store(folder) as store:
            return training_batch(store, 0, 0, 1, shows_inspirations=False)

    assert load_task(toy_task).k == 3
    return make


def test_what_a_timed_out_program_did_finish_counts_neither_as_zero_nor_as_a_reward(judged):
    # It was perfect where it was judged; the rest is unknown.
    batch = judged(unfinished("timeout_cpu", {"square": 0.0}))
    late, other = (rollout.rewards for rollout in batch)
    # A row of zeros is the neutral element: with it or without it a set is worth the same.
    assert late.tolist() == [[0.0, 0.0, 0.0]]
    both, alone = set_utility([[*late, *other]]), set_utility([other])
    assert both.value == pytest.approx(alone.value)


@pytest.mark.parametrize("status", ["sandbox_error", JUDGE_ERROR])
def test_a_rollout_that_our_side_failed_on_is_not_learned_from(judged, status):
    batch = judged(unfinished(status, {}))
    assert [rollout.rewards.tolist() for rollout in batch] == [[[0.5, 0.5, 0.5]]]


def test_a_quarantined_program_earns_nothing(judged):
    batch = judged(unfinished("quarantined", {"square": -5.0}))
    assert batch[0].rewards.tolist() == [[0.0, 0.0, 0.0]]
    advantages = compute_advantages(
        [rollout.rewards for rollout in batch], [0, 0], estimator="vpo", seed=0
    )
    assert advantages.advantages[0] < advantages.advantages[1]
