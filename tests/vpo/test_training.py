"""`vpo train` on a toy whose best sets are known, with a random model of a few thousand weights."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from typer.testing import CliRunner

from tests.vpo.tiny import llama
from vpo.checkpoint import load_checkpoint
from vpo.cli import app
from vpo.model import load_version
from vpo.probe import largest_gap, model_scorer
from vpo.runs import load_config, read_rows
from vpo.task import FolderTask, Prompt, TaskError, find_tagged, open_task
from vpo.training import Training

# Three specialists and a generalist whose mean reward is the best of all; other words earn nothing.
REWARD = """
import re

WORTH = {"a": (1, 0, 0), "b": (0, 1, 0), "c": (0, 0, 1), "d": (0.4, 0.4, 0.4)}


def find_answers(text):
    return [match.span() for match in re.finditer(r"[a-z]+", text)]


def reward(prompt, answers):
    assert prompt["prompt"]
    return [WORTH.get(answer, (0, 0, 0)) for answer in answers]
"""
WORDS = ["<e>", "<u>", *"abcdefpqrs", *"ghijklmnotuvwxyzABCD"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """Folders of a model and a task."""
    root = tmp_path_factory.mktemp("toy")
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<u>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<e>", unk_token="<u>")
    tokenizer.save_pretrained(root / "model")
    model = llama()
    with torch.no_grad():  # nearly uniform, so that every word is tried
        model.lm_head.weight.mul_(0.05)
    model.save_pretrained(root / "model")
    (root / "task").mkdir()
    rows = [{"prompt": text} for text in ("p q", "p r", "q r", "r s", "s p", "q s")]
    rows += [{"prompt": text, "split": "test"} for text in ("s q", "r p")]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (root / "task" / "prompts.jsonl").write_text(lines)
    (root / "task" / "reward.py").write_text(REWARD)
    return root


def vpo(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def train(toy, out, *more, **options):
    values = {
        "task": toy / "task",
        "policy": f"hf:{toy / 'model'}",
        "out": out,
        "lora-rank": 0,
        "learning-rate": 1e-2,
        "max-new-tokens": 3,
        "prompts": 6,
        "kl": 0,
    } | {name.replace("_", "-"): value for name, value in options.items()}
    return vpo("train", *(word for k, v in values.items() for word in (f"--{k}", v)), *more)


def train_well(toy, out, *more, **options):
    result = train(toy, out, *more, **options)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def runs(toy, tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    options = {"steps": 50, "evaluate_every": 25}
    output = {m: train_well(toy, root / m, method=m, **options) for m in ("vpo", "grpo")}
    return root, output


def evaluations(out):
    rows = read_rows(out / "evaluations.jsonl")
    return rows[0], rows[-1]


def test_vpo_learns_to_cover_and_grpo_collapses(runs):
    root, _ = runs
    (before, vpo_), (_, grpo) = evaluations(root / "vpo"), evaluations(root / "grpo")
    assert before["set_utility"] < 0.25
    assert 0.0 < vpo_["set_utility_error"] < 0.1
    # The specialists together are worth 11/18 = 0.61, the generalist 0.4.
    assert vpo_["set_utility"] > 0.5
    assert vpo_["specialisation"] > 0.15
    assert vpo_["pairwise_l1"] > 1.0
    assert grpo["mean_reward"] > 0.36 > vpo_["mean_reward"]
    assert grpo["set_utility"] < 0.45
    assert grpo["pairwise_l1"] < 0.4
    assert vpo_["best_by_rollout"] == sorted(vpo_["best_by_rollout"])


def test_a_run_leaves_a_folder_that_explains_itself(runs, toy):
    root, output = runs
    out = root / "vpo"
    steps = read_rows(out / "steps.jsonl")
    assert [row["step"] for row in steps] == list(range(1, 51))
    assert [row["step"] for row in read_rows(out / "evaluations.jsonl")] == [0, 25, 50]
    assert steps[-1]["version"] == 50
    assert steps[-1]["tokens"] > steps[0]["tokens"] > 0
    assert {"set_utility", "winner_entropy", "clip_fraction", "copies"} <= steps[0][
        "measures"
    ].keys()
    assert load_config(out).method == "vpo"
    assert "evaluation at step 50" in output["vpo"]
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "set utility R" in (out / "curves.svg").read_text()
    # The saved policy is the trained one.
    model = load_version(AutoModelForCausalLM.from_pretrained(toy / "model"), out / "policy/v50")
    state = load_checkpoint(out / "checkpoint.pt")["trainer"]["weights"]
    for name, value in model.named_parameters():
        assert torch.equal(value, state[name])
    said = vpo("report", out)
    assert said.exit_code == 0
    assert "winner entropy" in said.output
    assert vpo("plot", out).exit_code == 0


def without_times(file):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in read_rows(file)]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("rank", [0, 2])
def test_a_killed_run_goes_on_bit_by_bit(toy, tmp_path, monkeypatch, rank):
    options = {
        "steps": 5,
        "save_every": 2,
        "evaluate_every": 3,
        "prompts": 2,
        "group_size": 4,
        "evaluation_rollouts": 3,
        "lora_rank": rank,
        "credit": "prefix",
        "kl": 0.01,
        "entropy_target": 3.6,
        "temperature_floor": 0.7,
    }
    # Steered by all controllers, whose state has to survive as well.
    more = ["--band", 0.3, 0.4, "--floors", 0.3, "--floors", 0.3, "--floors", 0.3]
    train_well(toy, tmp_path / "whole", *more, **options)
    steering = [row["steering"] for row in read_rows(tmp_path / "whole" / "steps.jsonl")]
    assert steering[0]["temperature"] == 1.0 > steering[-1]["temperature"] > 0.7
    assert steering[0]["lambda_d"] == 1.0 < steering[-1]["lambda_d"]
    assert steering[0]["entropy"] == 0.0 < steering[-1]["entropy"]
    assert steering[0]["multipliers"] == [0.0] * 3
    assert max(steering[-1]["multipliers"]) > 0.0
    steps = Training._train

    def killed(self, past):
        row = steps(self, past)
        if self.step == 4:
            raise Killed
        return row

    monkeypatch.setattr(Training, "_train", killed)
    with pytest.raises(Killed):
        # Step 3 is lost with its evaluation: the last checkpoint is that of step 2.
        train(toy, tmp_path / "killed", *more, **options)
    monkeypatch.undo()
    with (tmp_path / "killed" / "steps.jsonl").open("a") as handle:
        handle.write('{"step": 4, "cut')  # as a power cut may leave it
    assert len(read_rows(tmp_path / "killed" / "steps.jsonl")) == 3
    result = vpo("resume", tmp_path / "killed")
    assert result.exit_code == 0, result.output
    assert "step 3/5" in result.output
    assert "step 2/5" not in result.output
    for name in ("steps.jsonl", "evaluations.jsonl"):
        one, two = (without_times(tmp_path / run / name) for run in ("whole", "killed"))
        assert one == two
    one, two = (load_checkpoint(tmp_path / r / "checkpoint.pt") for r in ("whole", "killed"))
    for name, value in one["trainer"]["weights"].items():
        assert torch.equal(value, two["trainer"]["weights"][name])
    again = vpo("resume", tmp_path / "whole")  # nothing left to do
    assert again.exit_code == 0
    assert "goes on after step 5 of 5" in again.output
    assert "step 5/5" not in again.output


def test_an_adapter_is_saved_and_loads(toy, tmp_path):
    train_well(toy, tmp_path / "run", steps=2, lora_rank=2, save_every=1, evaluation_rollouts=2)
    assert {folder.name for folder in (tmp_path / "run/policy").iterdir()} == {"v1", "v2"}
    base = AutoModelForCausalLM.from_pretrained(toy / "model")
    tuned = load_version(base, tmp_path / "run/policy/v2")
    probe = [[10, 11, 2, 3]]
    assert largest_gap(model_scorer(base), model_scorer(tuned), probe) > 1e-4


@pytest.mark.parametrize("method", ["max_at_k", "vpo_iid", "maxrl", "entropic", "gdpo"])
def test_other_methods_run(toy, tmp_path, method):
    out = tmp_path / "run"
    train_well(toy, out, method=method, steps=1, evaluation_rollouts=2)
    assert len(read_rows(out / "steps.jsonl")) == 1


def test_the_embedded_model_is_known_by_name(toy, tmp_path):
    options = {"steps": 1, "prompts": 1, "group_size": 2, "evaluation_rollouts": 1}
    out = tmp_path / "run"
    train_well(toy, out, policy="pocket", lora_rank=2, evaluation_prompts=1, **options)
    assert (out / "policy" / "v1").exists() or not read_rows(out / "steps.jsonl")[0]["accepted"]


def broken(tmp_path, reward=REWARD, prompts='{"prompt": "p q"}\n'):
    folder = tmp_path / "task"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "reward.py").write_text(reward)
    (folder / "prompts.jsonl").write_text(prompts)
    return folder


def says(result, *parts):
    """One line on standard error, exit code 2."""
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("error: ")
    for part in parts:
        assert part in result.stderr


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"prompts": "{}\n"}, 'prompts.jsonl:1: an object with a text "prompt"'),
        ({"prompts": "\n\nnope\n"}, "prompts.jsonl:3: not JSON"),
        ({"prompts": '{"prompt": "p", "split": "dev"}\n'}, "'dev', allowed: train, test"),
        ({"prompts": '{"prompt": "p", "split": "test"}\n'}, "no prompt to train on"),
        ({"reward": "x = ("}, "reward.py: SyntaxError"),
        ({"reward": "x = 1"}, "a function reward(prompt, answers) is needed"),
        ({"reward": REWARD.replace('assert prompt["prompt"]', "prompt / 0")}, "TypeError"),
        ({"reward": REWARD.replace("(0, 0, 0)", "(0, 0, 2)")}, "reward returned 2, allowed: 0 to"),
        ({"reward": REWARD + "    return []\n" + "reward = lambda p, a: 1"}, "returned shape ()"),
        (
            {"reward": REWARD + "\ndef find_answers(text):\n    return [(2, 9), (1, 3)]\n"},
            "ascending spans without overlap",
        ),
    ],
)
def test_a_broken_task_is_one_line(toy, tmp_path, files, message):
    result = train(toy, tmp_path / "out", task=broken(tmp_path, **files), steps=1)
    says(result, message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ppo"}, "method is 'ppo', allowed: vpo, vpo_iid, grpo"),
        ({"credit": "token"}, "credit is 'token', allowed: rollout"),
        ({"credit": "prefix", "method": "max_at_k"}, "compares whole rollouts"),
        ({"steps": 0}, "steps is 0, at least 1"),
        ({"group_size": 1}, "group_size is 1, at least 2"),
        ({"temperature": 0}, "temperature is 0.0, a positive"),
        ({"temperature_floor": 2}, "temperature from 1.0 to 2.0"),
        ({"floors": 0.1, "method": "gdpo"}, "floors: gdpo has no scalar worth"),
        ({"lambda_d": 9, "task": "/no/such"}, "no such folder"),
        ({"policy": "gpt"}, "policy is 'gpt', allowed: hf:NAME_OR_PATH, pocket"),
        ({"policy": "hf:/no/such/model"}, "model '/no/such/model' cannot be loaded"),
        ({"task": "/no/such/task"}, "/no/such/task: no such folder"),
        ({"max_new_tokens": 128}, "128 fit the model's context"),
    ],
)
def test_bad_options_are_one_line(toy, tmp_path, options, message):
    says(train(toy, tmp_path / "out", **options), message)
    assert not (tmp_path / "out").exists()


def test_a_band_needs_a_lambda(toy, tmp_path):
    band = ("--band", 0.1, 0.2)
    says(train(toy, tmp_path / "out", *band, method="grpo"), "band: steers lambda_d")
    says(train(toy, tmp_path / "out", *band, lambda_d=9), "lambda_d is 9.0, allowed: 0.0 to 3.0")
    says(train(toy, tmp_path / "out", "--band", 0.5, 0.2), "0 <= low <= high <= 1")
    says(train(toy, tmp_path / "out", floors=0.2), "floors: 1 given, the task has 3 rewards")


def test_folders_are_not_overwritten(toy, tmp_path):
    (tmp_path / "file").touch()
    says(train(toy, tmp_path), "is there already")
    says(vpo("resume", tmp_path), "no config.json, so this is not the folder of a run")
    says(vpo("plot", tmp_path), "no config.json")
    says(vpo("report", tmp_path), "no step was taken yet")
    says(train(toy, tmp_path / "out", task=tmp_path), "holds prompts.jsonl and reward.py")


def test_the_example_runs_as_it_is(toy, tmp_path):
    folder = tmp_path / "example"
    assert vpo("new", folder).exit_code == 0
    train_well(toy, tmp_path / "out", task=folder, steps=1, evaluation_rollouts=2)
    judged = FolderTask(folder).judge(FolderTask(folder).train[0], ["12a\n\n  !?\nabc"], 2)[0]
    assert judged.rewards.tolist() == [[2 / 3, 1 / 3, 0.0], [0.0, 0.0, 0.5]]
    says(vpo("new", folder), "is there already")


def test_tagged_answers_are_the_default():
    text = "first <answer>1\n2</answer> or <answer>x</answer><answer>open"
    assert [text[a:b] for a, b in find_tagged(text)] == ["1\n2", "x"]


def test_a_judge_gets_at_most_the_answers_that_count(toy):
    task = open_task(toy / "task", "any", 3, 0)
    assert isinstance(task, FolderTask)
    assert len(task.train) == 6
    assert len(task.test) == 2
    (one, none) = task.judge(task.train[0], ["a b b d a", ""], 3)
    assert one.rewards.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
    assert one.spans == [(0, 1), (2, 3), (4, 5)]
    assert none.rewards.shape[0] == 0
    task.close()


def test_a_failing_judge_names_the_completion(tmp_path):
    reward = REWARD.replace('assert prompt["prompt"]', "raise KeyError('x')")
    task = FolderTask(broken(tmp_path, reward=reward))
    with pytest.raises(TaskError, match=re.escape("KeyError: 'x', on the completion 'a b'")):
        task.judge(Prompt("p", {"prompt": "p"}), ["a b"], 3)


def test_plug_ins_open_other_folders(tmp_path, monkeypatch):
    class Plugin:
        def load(self):
            return lambda folder, policy, answers, seed: (
                (folder.name, policy, answers, seed) if (folder / "mine").exists() else None
            )

    monkeypatch.setattr("vpo.task.entry_points", lambda group: [Plugin()] * (group == "vpo.tasks"))
    with pytest.raises(TaskError, match="holds prompts.jsonl"):
        open_task(tmp_path, "p", 3, 5)
    Path(tmp_path / "mine").touch()
    assert open_task(tmp_path, "p", 3, 5) == (tmp_path.name, "p", 3, 5)
