"""What a run exports, read by the tools it is for: pyribs, datasets, TRL."""

import json
from collections import Counter

import numpy as np
import pytest
from ribs.archives import CVTArchive, GridArchive

from evolve.store import Store
from tests.evolve.conftest import Command, write_toy_task

MUTATE = ("--policy", "mutate", "--set", "search.prompts=4", "--set", "search.rollouts=2")


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


@pytest.fixture(scope="module")
def grid_run(tmp_path_factory):
    """Two islands, so that cells are shared and champions travel."""
    place = tmp_path_factory.mktemp("export")
    folder = place / "run"
    options = ("--set", "search.islands=2", "--set", "search.migrate_every=2")
    Command()("run", write_toy_task(place), *MUTATE, *options, "--evaluations", 90, "--out", folder)
    out = Command()("export", folder).stdout
    assert "no training groups: policy mutate has no tokens" in out
    assert {path.name for path in (folder / "export").iterdir()} == {
        "programs.jsonl",
        "archive.npz",
    }
    return folder


def test_every_answer_is_a_line_and_says_what_became_of_it(grid_run):
    rows = lines_of(grid_run / "export" / "programs.jsonl")
    with Store(grid_run) as store:
        candidates = list(store.candidates())
        verdicts = {verdict.candidate: verdict for verdict in store.evaluations()}
        adds = Counter(add.candidate for add in store.adds())
        places = store.rollout_places()
    assert [row["id"] for row in rows] == [candidate.id for candidate in candidates]
    for row, candidate in zip(rows, candidates, strict=True):
        assert row["source"] == candidate.source
        assert row["parent"] == candidate.parent
        assert row["fate"] == candidate.fate
        assert len(row["archive"]) == adds[candidate.id]
        if candidate.rollout is not None:
            assert (row["round"], row["island"]) == places[candidate.rollout]
        verdict = verdicts.get(candidate.id)
        assert row["status"] == (verdict.status if verdict else None)
        if verdict and verdict.rewards:
            # The task's reward: 10 is worth nothing, 0 everything.
            for name in ("square", "line", "flat"):
                assert row["rewards"][name] == pytest.approx(
                    min(1.0, max(0.0, 1 - row["raw"][name] / 10))
                )
            assert row["mean"] == pytest.approx(np.mean(list(row["rewards"].values())))
            assert list(row["descriptors"]) == ["ast_nodes", "cyclomatic"]
    assert sum(row["status"] is not None for row in rows) == 91


def peer_of(arrays):
    """An archive of pyribs made from the arrays alone."""
    ranges = list(zip(arrays["lows"], arrays["highs"], strict=True))
    k = len(arrays["objective_names"])
    common = {
        "solution_dim": (),
        "ranges": ranges,
        "solution_dtype": np.int64,
        "extra_fields": {"rewards": ((k,), np.float64)},
    }
    if "dims" in arrays:
        return GridArchive(dims=arrays["dims"], **common)
    return CVTArchive(centroids=arrays["centroids"], **common)


def check_against_pyribs(folder):
    arrays = np.load(folder / "export" / "archive.npz", allow_pickle=False)
    peer = peer_of(arrays)
    added = peer.add(
        arrays["solution"], arrays["objective"], arrays["measures"], rewards=arrays["rewards"]
    )
    assert (added["status"] == 2).all()
    held = peer.data(["index", "solution", "rewards"], return_type="dict")
    order = np.argsort(held["index"])
    np.testing.assert_array_equal(held["index"][order], arrays["index"])
    np.testing.assert_array_equal(held["solution"][order], arrays["solution"])
    with Store(folder) as store:
        last = store.rounds()[-1]
    assert peer.stats.coverage == pytest.approx(last["coverage"])
    assert peer.stats.qd_score == pytest.approx(last["qd_score"])
    assert peer.stats.obj_max == pytest.approx(last["best_mean"])
    # The same from all valid programs, which pyribs sorts into cells itself.
    full = peer_of(arrays)
    for row in lines_of(folder / "export" / "programs.jsonl"):
        if row["rewards"]:
            point, rewards = list(row["descriptors"].values()), list(row["rewards"].values())
            full.add_single(row["id"], row["mean"], point, rewards=rewards)
    assert full.stats.num_elites == len(arrays["index"])
    assert full.stats.qd_score == pytest.approx(last["qd_score"])
    return arrays


def test_pyribs_takes_a_grid_and_finds_the_same_figures(grid_run):
    arrays = check_against_pyribs(grid_run)
    assert arrays["dims"].tolist() == [8, 5]
    assert arrays["measure_names"].tolist() == ["ast_nodes", "cyclomatic"]
    assert arrays["objective_names"].tolist() == ["square", "line", "flat"]
    np.testing.assert_allclose(arrays["rewards"].mean(axis=1), arrays["objective"])


def test_pyribs_takes_a_tessellation_and_finds_the_same_figures(toy_task, command, tmp_path):
    cells = ("--set", "search.cells=cvt", "--set", "search.cvt_cells=12")
    folder = tmp_path / "run"
    command("run", toy_task, *MUTATE, *cells, "--evaluations", 40, "--out", folder)
    command("export", folder)
    assert len(check_against_pyribs(folder)["centroids"]) == 12


@pytest.fixture(scope="module")
def pocket_run(tmp_path_factory):
    """A run of the embedded model, untrained and trained once."""
    place = tmp_path_factory.mktemp("groups")
    small = ("--set", "search.prompts=2", "--set", "search.rollouts=4", "--set", "search.answers=2")
    often = ("--set", "training.every=1", "--evaluations", 16)
    Command()("run", write_toy_task(place), *small, *often, "--out", place / "run")
    Command()("export", place / "run", "--out", place / "out")
    return place / "run", place / "out"


def test_groups_hold_what_was_sampled_and_what_it_was_worth(pocket_run):
    folder, out = pocket_run
    rows = lines_of(out / "trl.jsonl")
    programs = {row["id"]: row for row in lines_of(out / "programs.jsonl")}
    with Store(folder) as store:
        rounds = len(store.rounds())
        rollouts = {rollout.id: rollout for rollout in store.rollouts(0, rounds - 1)}
        prompts = {prompt.id: prompt for prompt in store.prompts(0, rounds - 1)}
    assert rounds >= 2
    assert [row["rollout"] for row in rows] == sorted(rollouts)
    assert len({row["version"] for row in rows}) >= 2
    paid = 0
    for row in rows:
        rollout, prompt = rollouts[row["rollout"]], prompts[row["group"]]
        assert row["completion_ids"] == list(rollout.tokens)
        assert row["logprobs"] == list(rollout.logprobs)
        assert len(row["logprobs"]) == len(row["completion_ids"])
        assert row["completion"] == rollout.completion
        assert (row["prompt"], row["prompt_ids"]) == (prompt.text, list(prompt.tokens))
        assert row["reference"] == [list(programs[prompt.parent]["rewards"].values())]
        matrix = [[0.0] * 3, [0.0] * 3]
        for program in programs.values():
            if program["rollout"] == row["rollout"]:
                twin = programs.get(program["twin"])
                if twin is not None and twin["round"] == program["round"]:
                    program = {**program, "rewards": twin["rewards"]}
                matrix[program["answer"]] = list((program["rewards"] or {}).values()) or [0.0] * 3
        assert row["rewards"] == matrix
        paid += any(map(any, matrix))
    assert paid


def test_the_rows_for_verl_hold_the_same_groups(pocket_run):
    from datasets import load_dataset

    _, out = pocket_run
    by_group = {}
    for row in lines_of(out / "trl.jsonl"):
        by_group.setdefault(row["group"], []).append(row)
    table = load_dataset("json", data_files=str(out / "verl.jsonl"), split="train")
    assert {"data_source", "prompt", "ability", "reward_model", "extra_info"} <= set(
        table.column_names
    )
    assert len(table) == len(by_group)
    for row in table:
        group = by_group[row["extra_info"]["index"]]
        (message,) = row["prompt"]
        assert message == {"role": "user", "content": group[0]["prompt"]}
        assert row["raw_prompt_ids"] == group[0]["prompt_ids"]
        assert row["responses"] == [one["completion_ids"] for one in group]
        assert row["rollout_log_probs"] == [one["logprobs"] for one in group]
        assert np.shape(row["reward_matrices"]) == (4, 2, 3)


@pytest.mark.slow
def test_trl_trains_on_the_stored_rollouts(pocket_run, tmp_path):
    import torch
    from datasets import Dataset, load_dataset
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    from tests.vpo.tiny import SMALL
    from vpo.integrations.trl import set_utility_reward

    _, out = pocket_run
    table = load_dataset("json", data_files=str(out / "trl.jsonl"), split="train")
    group = [row for row in table if row["group"] == 0]
    size = 1 + max(max(row["prompt_ids"] + row["completion_ids"]) for row in table)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(**{**SMALL, "vocab_size": size + 1}))
    model.save_pretrained(tmp_path / "model")
    words = Tokenizer(models.WordLevel({str(i): i for i in range(size)} | {"<p>": size}))
    seen = []

    def replay(prompts, _trainer):
        assert prompts == [group[0]["prompt"]] * 4
        names = ("prompt_ids", "completion_ids", "logprobs", "rewards")
        return {name: [row[name] for row in group] for name in names}

    def judge(rewards, completion_ids, **_):
        seen.append(completion_ids)
        return [np.array(matrix) for matrix in rewards]

    trainer = GRPOTrainer(
        model=str(tmp_path / "model"),
        reward_funcs=set_utility_reward(judge),
        args=GRPOConfig(
            output_dir=str(tmp_path),
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            max_steps=1,
            logging_steps=1,
            num_generations=4,
            per_device_train_batch_size=4,
            model_init_kwargs={"dtype": "float32"},
        ),
        train_dataset=Dataset.from_dict({"prompt": [group[0]["prompt"]]}),
        processing_class=PreTrainedTokenizerFast(
            tokenizer_object=words, pad_token="<p>", eos_token="<p>"
        ),
        rollout_func=replay,
    )
    trainer.train()
    assert seen == [[row["completion_ids"] for row in group]]
    weights = np.random.default_rng(0).dirichlet(np.ones(3), 200_000)
    worth = [(np.array(row["rewards"]) @ weights.T).max(axis=0).mean() for row in group]
    logged = next(entry for entry in trainer.state.log_history if "reward" in entry)
    assert logged["reward"] == pytest.approx(np.mean(worth), abs=2e-3)


def test_files_that_cannot_be_written_and_folders_without_a_run_are_one_line(
    grid_run, command, tmp_path
):
    (tmp_path / "file").write_text("")
    for folder, out in ((grid_run, tmp_path / "file"), (tmp_path, tmp_path / "out")):
        error = command("export", folder, "--out", out, code=2).stderr
        assert error.startswith("error: ")
        assert error.count("\n") == 1


def test_a_second_export_gives_the_same_bytes(grid_run, command, tmp_path):
    command("export", grid_run, "--out", tmp_path)
    for name in ("programs.jsonl", "archive.npz"):
        assert (tmp_path / name).read_bytes() == (grid_run / "export" / name).read_bytes()
