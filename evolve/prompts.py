"""What a policy is told: the parent, its rewards in words, what failed, what others did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evolve.canonical import View
from evolve.edits import EditForm
from evolve.files import files_of
from evolve.task import Task

_GRAMMAR: dict[EditForm, str] = {
    "line": (
        "Answer with {m} different edits. Open edit i with a line `@i`, then one change a line:\n"
        "`N=code` replaces line N, `N+code` inserts after line N, `N-` deletes line N.\n"
        "Keep the indentation after the sign. Write nothing else."
    ),
    "search_replace": (
        "Answer with {m} different edits. Write edit i as\n"
        "<answer i>\n<<<<<<< SEARCH\nlines to find\n=======\nnew lines\n>>>>>>> REPLACE\n"
        "</answer>\n"
        "SEARCH lines are copied from the program without their numbers."
    ),
    "block": (
        "Answer with {m} different versions of the program above. Write version i, whole, as\n"
        "<answer i>\n```{language}\n...\n```\n</answer>"
    ),
}


@dataclass(frozen=True)
class Shown:
    """Everything that a prompt may show.

    Attributes:
        task: The problem.
        view: The parent.
        rewards: The parent's reward vector (k,), each in [0, 1].
        weights: The scalarisation (k,) under which the parent was chosen.
        feedback: What went wrong with the last child of this parent, or "".
        inspirations: Views of programs from other cells with their reward vectors.
        answers: Number of answers asked for.
        remark: What the task had to say of the parent, or "".
        key: Where the prompt stands in the run: (seed, round, slot).
    """

    task: Task
    view: View
    rewards: tuple[float, ...]
    weights: tuple[float, ...]
    feedback: str
    inspirations: tuple[tuple[View, tuple[float, ...]], ...]
    answers: int
    key: tuple[int, int, int]
    remark: str = ""

    @property
    def emphasis(self) -> int:
        """Index of the objective with the most to gain under the drawn weights."""
        gaps = [w * (1.0 - r) for w, r in zip(self.weights, self.rewards, strict=True)]
        return gaps.index(max(gaps))


def numbered(view: View) -> str:
    """Return shown lines with the numbers that an edit refers to, counted from 1."""
    return _shown(view, [f"{number} {line}" for number, line in enumerate(view.lines, start=1)])


def _shown(view: View, lines: Sequence[str]) -> str:
    """Return one line for each of a view's; where it shows several files, under their names."""
    if len(set(view.files)) < 2:
        return "\n".join(lines)
    parts, start, last = list[str](), 0, ""
    for file, count in zip(view.files, view.counts, strict=True):
        parts += [f"--- {file} ---"] if file != last else []
        parts += lines[start : start + count]
        start, last = start + count, file
    return "\n".join(parts)


def instruct(shown: Shown, form: EditForm) -> str:
    """Return the prompt for a general language model.

    The emphasised objective comes last, since small models heed what they read last.
    """
    task = shown.task
    names = [objective.name for objective in task.objectives]
    view = shown.view
    lines = numbered(view) if form == "line" else _shown(view, view.lines)
    files = files_of(view.source)
    # Fences are named after languages, which their files mostly are too.
    language = files[0].name.rpartition(".")[2] if files else "py"
    language = "python" if language == "py" else language
    parts = [
        task.summary.strip(),
        "Rewards of the program below, 1 is best: "
        + _listed(dict(zip(names, shown.rewards, strict=True))),
        f"```{language}\n{lines}\n```",
    ]
    if shown.remark:
        parts.append(f"What its evaluation left: {shown.remark}")
    for view, rewards in shown.inspirations:
        scores = _listed(dict(zip(names, rewards, strict=True)))
        text = _shown(view, view.lines)
        parts.append(f"Another program, with {scores}:\n```{language}\n{text}\n```")
    if shown.feedback:
        parts.append(f"An earlier edit of this program failed: {shown.feedback}")
    parts.append(_GRAMMAR[form].format(m=shown.answers, language=language))
    parts.append(f"Improve {names[shown.emphasis]} above all.")
    return "\n\n".join(parts)


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())
