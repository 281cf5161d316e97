"""The pocket model: tokens, prompts, corpus, loss, training that resumes, and what is shipped."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from evolve import pocket
from evolve.canonical import canonical_view
from evolve.edits import apply_answer, parse_completion
from evolve.pocket import corpus, train
from evolve.pocket.batches import Row, batches, collate, hard_tokens
from evolve.pocket.blocks import invented_program
from evolve.pocket.library import as_program
from evolve.pocket.model import HARD_WEIGHT, PROMPT_WEIGHT, loss_of, make_model
from evolve.pocket.trials import inputs_for, outcome, within
from evolve.program import split_blocks
from evolve.seeding import rng_for

TASKS = Path(__file__).parents[2] / "tasks"


@pytest.fixture(scope="module")
def encoder() -> Tokenizer:
    return pocket.tokenizer()


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# Tokens


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(codec="utf-8")) | st.text("v0123 \n@=+-:()[].,rwmnp_'\"\t\r"))
def test_any_text_survives_the_tokenizer(text):
    encoder = pocket.tokenizer()
    assert encoder.decode(encoder.encode(text).ids, skip_special_tokens=False) == text


def test_names_lines_and_marks_are_single_tokens(encoder):
    wanted = [f"v{n}" for n in range(100)] + [f"@{n}" for n in range(1, 6)]
    wanted += [f"r{n}" for n in range(10)] + [f"w{n}" for n in range(16)] + ["m3"]
    for text in wanted:
        assert len(encoder.encode(text).ids) == 1, text
    for n in range(100):
        assert encoder.encode(f"\n{n}=    v{n} = v{n}").tokens[0] == f"Ċ{n}"
        assert len(encoder.encode(f"\n{n}=    v{n} = v{n}").ids) == 5


def test_the_files_give_transformers_the_same_tokens(encoder):
    loaded = AutoTokenizer.from_pretrained(str(pocket.weights_folder()))
    text = "r1r2w0m3\n1:def v0(v1):\n2:    return np.sqrt(v1) + 0.25\n"
    assert loaded(text).input_ids == encoder.encode(text).ids
    assert loaded.decode(loaded(text).input_ids) == text
    assert loaded.eos_token == "<eos>"


@pytest.mark.parametrize("seed", range(20))
def test_a_completion_is_tokenized_alone_as_after_its_prompt(encoder, seed):
    rng = np.random.default_rng(seed)
    view = canonical_view(invented_program(rng))
    prompt = pocket.render(view.lines, [0.5], [1.0], 2, rng)
    completion = "@1\n1=def v0(v1):\n@2\n2-"
    ids = encoder.encode(prompt).ids + encoder.encode(completion).ids
    assert ids == encoder.encode(prompt + completion).ids


# Prompts


def test_header_shows_rewards_in_steps_and_the_largest_weight():
    assert pocket.header([0.0, 0.71, 1.0], [0.2, 0.3, 0.5], 3) == "r0r7r9w2m3"
    with pytest.raises(ValueError, match="answers is 0, allowed: 1 to 9"):
        pocket.header([0.0], [1.0], 0)


def test_a_short_program_is_shown_whole():
    lines = ["def v0(v1):", "    return v1"]
    prompt = pocket.render(lines, [0.5], [1.0], 1, np.random.default_rng(0))
    assert prompt == "r5w0m1\n1:def v0(v1):\n2:    return v1\n"


@pytest.mark.parametrize("seed", range(10))
def test_a_long_program_is_shown_through_a_window_with_true_numbers(encoder, seed):
    lines = ["def v0(v1):"] + [f"    v{n} = np.sqrt(v{n - 1}) + {n}" for n in range(2, 90)]
    prompts = [
        pocket.render(lines, [0.5] * 4, [1.0] * 4, 3, np.random.default_rng(seed)) for _ in "ab"
    ]
    assert prompts[0] == prompts[1]
    assert len(encoder.encode(prompts[0]).ids) <= pocket.MAX_PROMPT_TOKENS
    shown = [line.partition(":") for line in prompts[0].split("\n")[1:-1]]
    numbers = [int(number) for number, _, _ in shown]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert len(numbers) > 15
    assert all(lines[int(number) - 1] == text for number, _, text in shown)


def test_the_package_loads_no_torch():
    code = (
        "import sys, evolve.pocket; sys.exit(not {'torch', 'transformers'}.isdisjoint(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Trials


def test_a_call_that_never_comes_back_costs_its_time_and_nothing_else():
    assert within(1, lambda: ["1=", 2]) == ["1=", 2]
    # No alarm gets through: compiled code that never looks at signals.
    assert within(1, lambda: sum(itertools.repeat(1))) is None
    with pytest.raises(RuntimeError, match="could not be made"):
        within(1, lambda: 1 / 0)


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "return 1 / 0",
        "return float('nan')",
        "return 'text'",
        "raise SystemExit",
    ],
)
def test_what_does_not_run_has_no_outcome(body):
    assert outcome(as_program(f"def main(f1):\n    {body}"), [[1.0]]) is None


def test_outcomes_tell_results_apart_and_leave_the_arguments_alone():
    first = as_program("def main(a1):\n    a1 += 1\n    return a1")
    same = as_program("def main(a1):\n    return [a1 + 1][0]")
    other = as_program("def main(a1):\n    return a1 + 2")
    inputs = [[np.arange(3.0)]]
    assert outcome(first, inputs) == outcome(first, inputs) == outcome(same, inputs)
    assert outcome(other, inputs) not in (None, outcome(first, inputs))
    assert inputs[0][0].tolist() == [0.0, 1.0, 2.0]


def test_every_sketch_runs():
    assert len(corpus.sketches()) > 60
    for source in corpus.sketches():
        inputs = inputs_for(source, np.random.default_rng(1))
        assert inputs is not None
        assert outcome(source, inputs) is not None, source


# Corpus


@pytest.fixture
def no_library(monkeypatch):
    """Reading the library takes a minute."""
    few = (as_program("def clamp(low, x):\n    if x < low:\n        return low\n    return x + 1"),)
    monkeypatch.setattr(corpus, "library", lambda: few)


@pytest.mark.usefixtures("no_library")
def test_examples_are_well_formed_and_depend_on_the_seed_alone(encoder):
    made = [corpus.example(rng_for(3, "t", n), encoder) for n in range(25)]
    assert made == [corpus.example(rng_for(3, "t", n), encoder) for n in range(25)]
    good = [example for example in made if example is not None]
    assert len(good) > 10
    for prompt, completions in good:
        head, *lines = prompt.split("\n")
        wanted = int(head.rpartition("m")[2])
        shown = {line.partition(":")[0] for line in lines if line}
        for completion in completions:
            answers = parse_completion(completion, "line", 9)
            assert len(answers) == wanted
            for answer in answers:
                assert answer.fault is None
                touched = {str(change.line) for change in answer.edit}
                assert touched <= shown | {"0"}


def test_edits_of_made_up_programs_run_and_change_the_output():
    checked = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        source = invented_program(rng)
        inputs = inputs_for(source, rng)
        if inputs is None or outcome(source, inputs) is None:
            continue
        view = canonical_view(source)
        for text, child in corpus._useful_edits(source, inputs, rng, 6, []):
            answer = parse_completion("@1\n" + text, "line", 1)[0]
            assert apply_answer(view, answer).source == child
            assert outcome(child, inputs) not in (None, outcome(source, inputs))
            checked += 1
    assert checked > 20


def _shapes(source: str) -> set[str]:
    """Return the lines of the canonical view with all names and numbers made one."""
    lines = canonical_view(source).lines
    plain = (re.sub(r"v\d+", "v", re.sub(r"(?<![v\d])\d+(\.\d+)?", "0", line)) for line in lines)
    return {line.strip() for line in plain if not line.strip().startswith(("def ", "return"))}


@pytest.mark.parametrize("task", ["circle_packing", "online_bin_packing", "symbolic_regression"])
def test_no_starting_program_of_a_task_is_in_the_corpus(task):
    seed = _shapes((TASKS / task / "initial.py").read_text())
    invented = [invented_program(np.random.default_rng(n)) for n in range(300)]
    for source in (*corpus.sketches(), *invented):
        assert len(seed & _shapes(source)) < 0.6 * len(seed), source


def test_library_functions_become_programs_of_one_block():
    import ast

    from evolve.pocket.library import _functions

    tree = ast.parse(
        "import os\n\nclass A:\n    def f(self, x: int) -> str:\n        return os.sep * x\n"
    )
    (source,) = _functions(tree)
    assert source.startswith("import os\n# EVOLVE-BLOCK-START")
    assert len(split_blocks(source)) == 1
    assert canonical_view(source).lines == ("def v0(v1, v2):", "    return os.sep * v2")


# Loss and training


def test_shared_prompts_give_the_loss_of_separate_rows(encoder):
    model = make_model(encoder, 0)
    rows = [
        Row([5, 6, 7, 8], [[9, 10, 1], [11, 1], [12, 13, 14, 1]], [[1], [], [0, 2]]),
        Row([15, 16], [[17, 18, 19, 20, 1]], [[]]),
    ]
    total, weight = 0.0, 0.0
    answer_losses = []
    with torch.no_grad():
        for row in rows:
            for number, completion in enumerate(row.completions):
                ids = torch.tensor([row.prompt + completion])
                logits = model(ids).logits[0, :-1]
                losses = functional.cross_entropy(logits, ids[0, 1:], reduction="none")
                split = len(row.prompt) - 1
                answer_losses += losses[split:].tolist()
                counts = torch.ones(len(completion))
                counts[row.hard[number]] = HARD_WEIGHT
                total += float((losses[split:] * counts).sum())
                weight += float(counts.sum())
                if number == 0:
                    total += PROMPT_WEIGHT * float(losses[:split].sum())
                    weight += PROMPT_WEIGHT * split
        loss, answer_loss = loss_of(model, collate(rows, 0))
    assert float(loss) == pytest.approx(total / weight, abs=1e-4)
    assert float(answer_loss) == pytest.approx(np.mean(answer_losses), abs=1e-4)


def test_hard_tokens_are_first_differences_and_closing_brackets(encoder):
    prompt = "r1r2w0m2\n1:def v0(v1):\n2:    v3 = np.abs(v1 - v2)\n3:    return v3 / v1\n"
    completions = ["@1\n3=    return v3 / v2\n@2\n2=    v3 = np.abs(v1 - v2) + 1\n", "@1\n2-\n"]
    completions.append("@1\n2+    v3 = 1\n3=return v3\n")
    spelt = {index: encoder.decode([index]) for index in range(encoder.get_vocab_size())}
    ids = [encoder.encode(text).ids for text in completions]
    found = hard_tokens(encoder.encode(prompt).ids, ids, spelt)
    words = [[spelt[tokens[p]] for p in places] for tokens, places in zip(ids, found, strict=True)]
    assert words == [["v2", ")", " + "], [], ["="]]


def test_batches_hold_every_row_once_and_keep_to_the_limit():
    rng = np.random.default_rng(0)
    rows = [Row([1] * int(rng.integers(2, 90)), [[n, 1]], [[]]) for n in range(300)]
    made = list(batches(rows, 512, np.random.default_rng(1), pool=100))
    assert sorted(row.completions[0][0] for batch in made for row in batch) == list(range(300))
    for batch in made:
        assert len(batch) * max(row.width for row in batch) <= 512


def test_training_learns_and_resumes(tmp_path, encoder, capsys):
    (tmp_path / "corpus").mkdir()
    example = ["r1w0m1\n1:def v0(v1):\n2:    return v1\n", ["@1\n2=    return v1 + 1"] * 2]
    for number in range(2):
        text = "\n".join([json.dumps(example)] * 8)
        (tmp_path / "corpus" / f"{number:04d}.jsonl").write_text(text)
    losses = []
    for seconds in (2.0, 6.0):
        train._train(tmp_path, encoder, seconds, 0)
        losses.append(
            float(re.findall(r"held-out answer loss ([\d.]+)", capsys.readouterr().out)[-1])
        )
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert state["spent"] >= 6.0
    assert losses[1] < losses[0] < 7.5  # ln 1792 = 7.49 is a guess
    loaded = AutoModelForCausalLM.from_pretrained(str(tmp_path / "weights"))
    assert torch.equal(
        loaded.model.norm.weight.float(), state["model"]["model.norm.weight"].bfloat16().float()
    )


# What is shipped


def test_shipped_weights_are_small_and_load():
    file = pocket.weights_folder() / "model.safetensors"
    assert file.stat().st_size <= 8e6
    model = AutoModelForCausalLM.from_pretrained(str(pocket.weights_folder()))
    count = sum(parameter.numel() for parameter in model.parameters())
    assert 2e6 <= count <= 8e6
    assert model.config.model_type == "llama"
    assert model.config.vocab_size == pocket.tokenizer().get_vocab_size()


def test_shipped_model_writes_edits_that_apply():
    from vpo.sampling import generate

    source = as_program(
        "def weigh(size, room):\n    left = room - size\n    share = left / np.max(room)\n"
        "    bonus = np.where(left < 0.1, 1.0, 0.0)\n    return bonus - share ** 2",
        "import numpy as np\n",
    )
    view = canonical_view(source)
    encoder = pocket.tokenizer()
    prompt = pocket.render(view.lines, [0.4, 0.6], [0.7, 0.3], 3, np.random.default_rng(0))
    model = AutoModelForCausalLM.from_pretrained(str(pocket.weights_folder()), dtype=torch.float32)
    samples = next(
        iter(
            generate(
                model,
                [encoder.encode(prompt).ids],
                32,
                max_new_tokens=160,
                eos_id=model.config.eos_token_id,
                seeds=[0],
            )
        )
    )
    assert sum(sample.finished for sample in samples) >= 30
    faults = []
    for sample in samples:
        answers = parse_completion(encoder.decode(list(sample.ids)), "line", 3)
        faults += [apply_answer(view, answer).fault for answer in answers]
    read = [fault not in ("unreadable", "empty", "bad_line") for fault in faults]
    assert len(faults) >= 90
    assert np.mean(read) >= 0.95
    assert np.mean([fault is None for fault in faults]) >= 0.6
