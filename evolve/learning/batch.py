"""From stored rounds to what an update is made of: rollouts with their reward matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from evolve.records import JUDGE_ERROR, Candidate, PromptRecord, RolloutRecord
from evolve.sandbox import Status
from evolve.store import Store
from vpo.rollouts import Rollout

#: Verdicts that say nothing about the program.
OUR_FAULTS = (str(Status.SANDBOX_ERROR), JUDGE_ERROR)


def training_batch(
    store: Store, first: int, last: int, answers: int, shows_inspirations: bool
) -> list[Rollout]:
    """Return the rollouts of a range of rounds, both ends included, with their reward matrices.

    An answer that did not become a valid new program has a row of zeros, which adds nothing to a
    set: what it did not finish is unknown, so that no part of it counts, and what was quarantined
    earns nothing. One that repeats a program first proposed in the same round shares its rewards,
    since it was as good an idea. A rollout with an answer that the sandbox or the judge failed on
    is left out: nobody knows what it is worth, and the policy is not to blame.

    Args:
        store: The run.
        first: First round.
        last: Last round.
        answers: Rows of each matrix, m.
        shows_inspirations: Whether answers are held against the inspirations beside the parent.
    """
    return [
        rollout for _, _, rollout in recorded_batch(store, first, last, answers, shows_inspirations)
    ]


def recorded_batch(
    store: Store, first: int, last: int, answers: int, shows_inspirations: bool
) -> Iterator[tuple[PromptRecord, RolloutRecord, Rollout]]:
    """Yield the rollouts of :func:`training_batch` with the records that they were made of."""
    prompts = {prompt.id: prompt for prompt in store.prompts(first, last)}
    verdicts = store.evaluations_of_rounds(first, last)
    by_rollout: dict[int, list[Candidate]] = {}
    for candidate in store.candidates_of_rounds(first, last):
        by_rollout.setdefault(candidate.rollout or 0, []).append(candidate)
    rounds = {
        candidate.id: prompts[rollout.prompt].round
        for rollout in store.rollouts(first, last)
        for candidate in by_rollout.get(rollout.id, [])
    }
    references: dict[int, tuple[float, ...]] = {}

    def reward_of(program: int) -> tuple[float, ...]:
        if program not in references:
            verdict = store.evaluation(program)
            references[program] = (verdict.rewards or ()) if verdict else ()
        return references[program]

    for rollout in store.rollouts(first, last):
        prompt = prompts[rollout.prompt]
        if not rollout.tokens:
            continue
        shown = [prompt.parent, *(prompt.inspirations if shows_inspirations else ())]
        reference = np.array([reward_of(program) for program in shown])
        rewards = np.zeros((answers, reference.shape[1]))
        end = len(rollout.tokens)
        spans = [(end, end)] * answers
        judged_well = True
        for candidate in by_rollout.get(rollout.id, []):
            spans[candidate.answer] = candidate.tokens
            judged = candidate.id
            if candidate.twin is not None and rounds.get(candidate.twin) == prompt.round:
                judged = candidate.twin
            verdict = verdicts.get(judged)
            if verdict is not None and verdict.rewards is not None:
                rewards[candidate.answer] = verdict.rewards
            judged_well &= verdict is None or verdict.status not in OUR_FAULTS
        if not judged_well:
            continue
        yield (
            prompt,
            rollout,
            Rollout(
                prompt_ids=prompt.tokens,
                completion_ids=rollout.tokens,
                behaviour_logprobs=np.array(rollout.logprobs, np.float32),
                rewards=rewards,
                answer_spans=spans,
                group=prompt.id,
                version=rollout.version,
                reference=reference,
            ),
        )


def useful_shares(store: Store, version: int, answers: int) -> npt.NDArray[np.float64]:
    """Return, for each prompt that a version answered, the share of its answers that were useful.

    Useful is an answer that became a valid program which the run had not seen; ``answers`` is the
    number asked for in one rollout.
    """
    rounds = [entry["round"] for entry in store.rounds() if entry["version"] == version]
    if not rounds:
        return np.zeros(0)
    first, last = min(rounds), max(rounds)
    prompt_of = {rollout.id: rollout.prompt for rollout in store.rollouts(first, last)}
    asked: dict[int, int] = dict.fromkeys(prompt_of.values(), 0)
    useful = dict(asked)
    for prompt in prompt_of.values():
        asked[prompt] += answers
    verdicts = store.evaluations_of_rounds(first, last)
    for candidate in store.candidates_of_rounds(first, last):
        verdict = verdicts.get(candidate.id)
        if candidate.rollout is not None and verdict is not None and verdict.rewards is not None:
            useful[prompt_of[candidate.rollout]] += 1
    return np.array([useful[prompt] / asked[prompt] for prompt in asked])
