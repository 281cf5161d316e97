"""A task of the search as something that ``vpo train`` trains on, without any campaign.

Prompts show fixed parents: the starting program and scripted mutants of it, a quarter of them held
out. The answers of a completion are edits; each is applied and judged in the sandbox as in a
campaign, and the set is held against its parent's rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolve import pocket
from evolve.canonical import View, canonical_view, raw_view
from evolve.check import mutants_of
from evolve.edits import apply_answer, parse_completion
from evolve.errors import EvolveError
from evolve.evaluate import evaluate_many, open_pool
from evolve.policy import check_language
from evolve.prompts import Shown, instruct
from evolve.seeding import rng_for
from evolve.task import Task, load_task
from vpo.task import Judged, Prompt, TaskError

#: Parents beside the starting program, and prompts that show each, under drawn weights.
MUTANTS = 31
SHOWINGS = 2
WORKERS = 2


def open_edits(folder: Path, policy: str, answers: int, seed: int) -> EditTask | None:
    """Return the edits of a task folder, or None if it is none; for the group ``vpo.tasks``.

    Raises:
        TaskError: If the task or the sandbox cannot be used.
    """
    if not (folder / "task.py").is_file():
        return None
    if policy == "pocket" and answers > pocket.MAX_ANSWERS:
        raise TaskError(
            f"answers is {answers}: the pocket model writes {pocket.MAX_ANSWERS} at most"
        )
    try:
        task = load_task(folder)
        check_language(policy, task.initial)
        return EditTask(task, policy == "pocket", answers, seed)
    except EvolveError as error:
        raise TaskError(str(error)) from error


class EditTask:
    """Edits of fixed parents, judged in the sandbox."""

    train: Sequence[Prompt]
    test: Sequence[Prompt]

    def __init__(self, task: Task, embedded: bool, answers: int, seed: int) -> None:
        """Judge the parents and write the prompts.

        Args:
            task: The problem.
            embedded: Whether the pocket model reads the prompts; it has a language of its own.
            answers: Answers asked for.
            seed: Of the parents and the weights shown.

        Raises:
            EvolveError: If the sandbox cannot be opened or the starting program fails.
        """
        self._task = task
        self._embedded = embedded
        self._pool = open_pool(task, WORKERS)
        #: Fingerprint of a program -> its rewards, None where it failed.
        self._known: dict[str, tuple[float, ...] | None] = {}
        try:
            self._make_prompts(answers, seed)
        except BaseException:
            self._pool.close()
            raise

    def judge(self, prompt: Prompt, texts: Sequence[str], answers: int) -> list[Judged]:
        """Return the answers of each completion; one that gives no valid program earns zeros.

        Raises:
            TaskError: If the judge or the sandbox fails.
        """
        view: View = prompt.data["view"]
        read = [
            [(answer.span, apply_answer(view, answer)) for answer in found]
            for found in (parse_completion(text, "line", answers) for text in texts)
        ]
        self._evaluate(
            {
                str(applied.fingerprint): applied.source
                for found in read
                for _, applied in found
                if applied.source is not None
            }
        )
        k = len(self._task.objectives)
        judged = []
        for found in read:
            rewards = np.zeros((len(found), k))
            for row, (_, applied) in enumerate(found):
                known = self._known.get(str(applied.fingerprint)) if applied.source else None
                if known is not None:
                    rewards[row] = known
            judged.append(Judged([span for span, _ in found], rewards))
        return judged

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    def _make_prompts(self, answers: int, seed: int) -> None:
        initial = self._task.initial
        mutants = mutants_of(initial, MUTANTS, rng_for(seed, "parents"))
        sources = {str(number): source for number, source in enumerate([initial, *mutants])}
        self._evaluate(sources)
        parents = [
            (sources[name], rewards)
            for name in sources
            if (rewards := self._known.pop(name)) is not None
        ]
        prompts: list[list[Prompt]] = []
        for number, (source, rewards) in enumerate(parents):
            showings = range(SHOWINGS)
            prompts.append(
                [self._prompt(source, rewards, answers, seed, number, s) for s in showings]
            )
        if not prompts:
            raise EvolveError(f"{self._task.start}: neither it nor a mutant of it is valid")
        held_out = prompts[3::4]
        self.train = [one for number, some in enumerate(prompts) if number % 4 != 3 for one in some]
        self.test = [one for some in held_out for one in some] or self.train

    def _prompt(
        self, source: str, rewards: tuple[float, ...], answers: int, seed: int, *address: int
    ) -> Prompt:
        view = canonical_view(source) if self._embedded else raw_view(source)
        weights = rng_for(seed, "weights", *address).dirichlet(np.ones(len(rewards)))
        shown = Shown(
            task=self._task,
            view=view,
            rewards=rewards,
            weights=tuple(weights.tolist()),
            feedback="",
            inspirations=(),
            answers=answers,
            key=(seed, address[0], address[1]),
        )
        if self._embedded:
            rng = rng_for(seed, "window", *address)
            text = pocket.render(view.lines, rewards, shown.weights, answers, rng)
        else:
            text = instruct(shown, "line") + "\n"
        data: dict[str, Any] = {"view": view}
        return Prompt(text, data, reference=np.array([rewards]))

    def _evaluate(self, sources: dict[str, str]) -> None:
        """Judge the programs that are not known yet, by fingerprint."""
        fresh = [name for name in sources if name not in self._known]
        try:
            for index, verdict in evaluate_many(
                self._task, [sources[name] for name in fresh], self._pool
            ):
                self._known[fresh[index]] = verdict.rewards
        except EvolveError as error:
            raise TaskError(str(error)) from error
