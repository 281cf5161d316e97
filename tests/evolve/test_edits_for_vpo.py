"""`vpo train` on a task of the search: edits of fixed parents, judged in the sandbox."""

import numpy as np
import pytest
from typer.testing import CliRunner

from evolve.canonical import canonical_view
from evolve.learning.edits import open_edits
from tests.evolve.conftest import write_toy_task
from vpo.cli import app
from vpo.runs import read_rows
from vpo.task import TaskError


@pytest.fixture
def toy(tmp_path):
    return write_toy_task(tmp_path)


def test_prompts_show_parents_whose_rewards_are_to_be_beaten(toy):
    task = open_edits(toy, "pocket", 3, 0)
    try:
        sources = {prompt.data["view"].source for prompt in task.train}
        held_out = {prompt.data["view"].source for prompt in task.test}
        assert len(sources) > 5
        assert held_out
        assert not sources & held_out
        first = task.train[0]
        # By hand: the starting program is 2.5 x - 0.5 up to x = 2 and then bends.
        xs = np.array([0.0, 0.5, 1.0, 2.0, 3.0])
        y, z = 2 * xs + 1, 2 * xs - 2
        out = np.where(z > 4, y - z / 2, y) + z * 0.5
        expected = [
            1.0 - np.abs(out - target).mean() / 10
            for target in (xs * xs, 3 * xs - 1, np.full(5, 2.0))
        ]
        np.testing.assert_allclose(first.reference, [expected], atol=1e-9)
        assert first.text.startswith("r")
        general = open_edits(toy, "hf:any", 3, 0)
        general.close()
        assert "close to three curves" in general.train[0].text
    finally:
        task.close()


def test_answers_are_applied_and_judged(toy):
    task = open_edits(toy, "pocket", 3, 0)
    try:
        prompt = task.train[0]
        lines = canonical_view((toy / "initial.py").read_text()).lines
        last = len(lines)
        better = f"@1\n{last}=    return 3 * v1 - 1\n"
        text = better + f"@2\n{last}=    return (\n@3\n{last}={lines[-1]}\n"
        (judged, again, nothing) = task.judge(prompt, [text, better, "no edit"], 3)
        assert len(judged.spans) == 3
        assert text[slice(*judged.spans[0])] == better
        assert judged.rewards[0][1] == 1.0  # the line is met
        assert judged.rewards[1:].tolist() == [[0.0] * 3] * 2  # broken; the parent itself
        np.testing.assert_array_equal(again.rewards, judged.rewards[:1])
        assert nothing.rewards.max(initial=0.0) == 0.0
    finally:
        task.close()


def test_the_pocket_model_trains_on_a_task_folder(toy, tmp_path):
    out = tmp_path / "out"
    words = (
        f"train --task {toy} --policy pocket --out {out} --steps 2 --prompts 2 --group-size 4 "
        "--max-new-tokens 80 --learning-rate 1e-4 --evaluation-rollouts 2 --evaluation-prompts 2"
    )
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 0, result.output
    rows = read_rows(out / "steps.jsonl")
    assert len(rows) == 2
    # The pocket model writes edits that run: some answers earn something.
    assert max(row["measures"]["mean_reward"] for row in rows) > 0.1
    assert (out / "curves.png").is_file()


def test_faults_are_one_line(toy, tmp_path):
    assert open_edits(tmp_path, "pocket", 3, 0) is None
    with pytest.raises(TaskError, match="answers is 9: the pocket model writes 5 at most"):
        open_edits(toy, "pocket", 9, 0)
    (toy / "initial.py").write_text("def solve(x):\n    return x\n")
    with pytest.raises(TaskError, match=r"initial\.py"):
        open_edits(toy, "pocket", 3, 0)
