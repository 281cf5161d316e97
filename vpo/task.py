"""What a policy is trained on: prompts, and a judge of the answers in a completion.

A task is a folder of two files:

- ``prompts.jsonl``: one JSON object a line with the text ``"prompt"``; ``"split": "test"`` keeps a
  prompt for evaluation; whatever else it holds is for the judge.
- ``reward.py``: ``reward(prompt, answers)`` returns the (m, k) rewards, in [0, 1], of the m answers
  (strings) in a completion, given the prompt's object. The answers stand between ``<answer>`` and
  ``</answer>``, unless the file defines ``find_answers(text)``, which returns their half-open
  character spans in order.

``reward.py`` is trusted: it runs in this process. It must not execute what a model wrote; programs
belong into a sandbox. Other kinds of folders come from packages that register an entry point in the
group ``vpo.tasks``, see :func:`open_task`.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from vpo.sets import Floats

Span = tuple[int, int]

_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


class TaskError(ValueError):
    """A task cannot be used as it is; one line."""


@dataclass(frozen=True)
class Prompt:
    """One prompt.

    Attributes:
        text: What the policy reads.
        data: Whatever the judge needs.
        reference: (p, k) rewards that answers have to beat, or None.
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    reference: Floats | None = None


@dataclass(frozen=True)
class Judged:
    """What a completion holds.

    Attributes:
        spans: Half-open character span of each answer, in order, without overlap.
        rewards: (m, k) their rewards in [0, 1].
    """

    spans: Sequence[Span]
    rewards: Floats


class Task(Protocol):
    """Prompts and a judge."""

    #: Prompts to train on, at least one.
    train: Sequence[Prompt]
    #: Prompts to evaluate on, at least one; perhaps those of ``train``.
    test: Sequence[Prompt]

    def judge(self, prompt: Prompt, texts: Sequence[str], answers: int) -> list[Judged]:
        """Return what each completion of a prompt holds, ``answers`` of them at most."""

    def close(self) -> None:
        """Let go of processes and files."""


def open_task(folder: Path, policy: str, answers: int, seed: int) -> Task:
    """Return the task of a folder.

    What is not a folder of ``prompts.jsonl`` and ``reward.py`` is offered to the entry points of
    the group ``vpo.tasks``: each is called with the same arguments and returns a task, or None for
    a folder that it does not know.

    Args:
        folder: The task.
        policy: Name of the policy, since a prompt may depend on who reads it.
        answers: Answers asked for in a completion.
        seed: Of whatever the task draws.

    Raises:
        TaskError: If there is no task or it is unusable.
    """
    if not folder.is_dir():
        raise TaskError(f"{folder}: no such folder")
    if (folder / "prompts.jsonl").is_file() and (folder / "reward.py").is_file():
        return FolderTask(folder)
    for plugin in entry_points(group="vpo.tasks"):
        task: Task | None = plugin.load()(folder, policy, answers, seed)
        if task is not None:
            return task
    raise TaskError(f"{folder}: a task folder holds prompts.jsonl and reward.py")


class FolderTask:
    """The task of a folder of ``prompts.jsonl`` and ``reward.py``."""

    def __init__(self, folder: Path) -> None:
        """Read the prompts and load the judge.

        Raises:
            TaskError: If a file is unusable.
        """
        prompts = _read_prompts(folder / "prompts.jsonl")
        by_split: dict[str, list[Prompt]] = {"train": [], "test": []}
        for prompt in prompts:
            by_split[prompt.data.get("split", "train")].append(prompt)
        self.train: Sequence[Prompt] = by_split["train"]
        self.test: Sequence[Prompt] = by_split["test"] or by_split["train"]
        if not self.train:
            raise TaskError(f"{folder / 'prompts.jsonl'}: no prompt to train on")
        self._file = folder / "reward.py"
        module = _load(self._file)
        self._reward: Callable[[dict[str, Any], list[str]], Any] = module.reward
        self._find: Callable[[str], Any] = getattr(module, "find_answers", find_tagged)

    def judge(self, prompt: Prompt, texts: Sequence[str], answers: int) -> list[Judged]:
        """Return what each completion holds.

        Raises:
            TaskError: If ``reward.py`` fails or returns what is not allowed.
        """
        return [self._judged(prompt, text, answers) for text in texts]

    def close(self) -> None:
        """Nothing to let go of."""

    def _judged(self, prompt: Prompt, text: str, answers: int) -> Judged:
        try:
            spans = [(int(start), int(stop)) for start, stop in self._find(text)][:answers]
            rewards = self._reward(dict(prompt.data), [text[a:b] for a, b in spans])
        except Exception as error:
            raise TaskError(
                f"{self._file}: {type(error).__name__}: {error}, on the completion {text[:80]!r}"
            ) from error
        edges = [0, *(edge for span in spans for edge in span), len(text)]
        if edges != sorted(edges):
            raise TaskError(
                f"{self._file}: find_answers returned {spans}; ascending spans without overlap "
                f"in [0, {len(text)}] are needed"
            )
        return Judged(spans, self._checked(rewards, len(spans)))

    def _checked(self, rewards: Any, m: int) -> Floats:
        if not m:
            return np.empty((0, 0))
        try:
            matrix = np.asarray(rewards, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        if matrix.ndim != 2 or len(matrix) != m or not matrix.shape[1]:
            raise TaskError(
                f"{self._file}: reward returned shape {matrix.shape} for {m} answers, "
                f"({m}, number of rewards) is needed"
            )
        if not ((matrix >= 0.0) & (matrix <= 1.0)).all():
            wrong = matrix[~((matrix >= 0.0) & (matrix <= 1.0))][0]
            raise TaskError(f"{self._file}: reward returned {wrong:g}, allowed: 0 to 1")
        return matrix


def find_tagged(text: str) -> list[Span]:
    """Return the spans of what stands between ``<answer>`` and ``</answer>``."""
    return [match.span(1) for match in _TAGGED.finditer(text)]


def _read_prompts(file: Path) -> list[Prompt]:
    prompts = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise TaskError(f"{file}:{number}: not JSON ({error.msg})") from error
        text = entry.get("prompt") if isinstance(entry, dict) else None
        if not isinstance(text, str) or not text:
            raise TaskError(f'{file}:{number}: an object with a text "prompt" is needed')
        if entry.get("split", "train") not in ("train", "test"):
            raise TaskError(f"{file}:{number}: split is {entry['split']!r}, allowed: train, test")
        prompts.append(Prompt(text, entry))
    return prompts


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"vpo_reward_{file.parent.name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TaskError(f"{file}: {type(error).__name__}: {error}") from error
    if not callable(getattr(module, "reward", None)):
        raise TaskError(f"{file}: a function reward(prompt, answers) is needed")
    return module
