"""One round of proposals: choose parents, ask the policy, read its answers, put them on record.

A round is a function of the state at its start, the policy version and the run's seed. Each prompt
is committed with its rollouts before its candidates run, so a killed round goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evolve.answers import candidates_of
from evolve.config import Config
from evolve.policy import Ask, Policy
from evolve.prompts import Shown
from evolve.records import Candidate, PromptRecord, RolloutRecord
from evolve.seeding import rng_for
from evolve.selection import Mixture, Pick, choose
from evolve.state import SearchState
from evolve.store import Store
from evolve.task import Task


@dataclass(frozen=True)
class Proposal:
    """A committed prompt with the candidates that came of it."""

    prompt: PromptRecord
    candidates: tuple[Candidate, ...]


def propose(
    round_: int, task: Task, config: Config, state: SearchState, policy: Policy, store: Store
) -> Iterator[Proposal]:
    """Yield the proposals of a round, those committed by an earlier session first.

    Args:
        round_: The round, from 0.
        task: The problem.
        config: The run's configuration.
        state: The state after the round before; it takes note of the new candidates. On a resume
            it knows the candidates of the committed prompts already.
        policy: Who answers.
        store: Where everything is committed.
    """
    done = store.prompts(round_, round_)
    for prompt in done:
        yield Proposal(prompt, tuple(store.candidates_of_prompt(prompt.id)))
    picks = choose_parents(round_, config, state)
    first_prompt = store.last_id("prompts") + 1 - len(done)
    prompts = [
        _prompt(first_prompt + slot, slot, pick, round_, task, config, state, policy)
        for slot, pick in enumerate(picks)
        if slot >= len(done)
    ]
    asks = [ask for _, ask in prompts]
    next_rollout = store.last_id("rollouts") + 1
    next_candidate = store.last_id("candidates") + 1
    search = config.search
    for (prompt, ask), completions in zip(
        prompts, policy.sample(asks, search.rollouts, search.answers), strict=True
    ):
        rollouts: list[RolloutRecord] = []
        candidates: list[Candidate] = []
        for repeat, completion in enumerate(completions):
            rollouts.append(
                RolloutRecord(
                    next_rollout,
                    prompt.id,
                    repeat,
                    policy.version,
                    completion.text,
                    completion.tokens,
                    completion.logprobs,
                )
            )
            read = candidates_of(
                completion,
                ask.view,
                policy.form,
                search.answers,
                rollout=next_rollout,
                parent=prompt.parent,
                first_id=next_candidate,
                state=state,
                budget=config.budget.evaluations,
            )
            candidates += read
            next_candidate += len(read)
            next_rollout += 1
        with store.transaction():
            store.add_prompt(prompt, rollouts, candidates)
        yield Proposal(prompt, tuple(candidates))


def choose_parents(round_: int, config: Config, state: SearchState) -> list[Pick]:
    """Return the picks of a round, the islands taking turns."""
    search = config.search
    mixture = Mixture(search.dirichlet, search.lexicase, search.uniform)
    turns: list[list[Pick]] = []
    for island, archive in enumerate(state.islands):
        share = len(range(island, search.prompts, search.islands))
        rng = rng_for(config.seed, "selection", round_, island)
        turns.append(
            choose(
                archive,
                island,
                rng,
                share,
                mixture,
                alpha=search.alpha,
                inspirations=search.inspirations,
            )
        )
    return [turns[slot % search.islands][slot // search.islands] for slot in range(search.prompts)]


def _prompt(
    id_: int,
    slot: int,
    pick: Pick,
    round_: int,
    task: Task,
    config: Config,
    state: SearchState,
    policy: Policy,
) -> tuple[PromptRecord, Ask]:
    parent = state.programs[pick.parent]
    others = [state.programs[id_] for id_ in pick.inspirations]
    view = policy.view(parent.source)
    text, tokens = policy.render(
        Shown(
            task=task,
            view=view,
            rewards=parent.rewards,
            weights=pick.weights,
            feedback=state.feedback.get(parent.id, ""),
            inspirations=tuple((policy.view(other.source), other.rewards) for other in others),
            answers=config.search.answers,
            key=(config.seed, round_, slot),
            remark=parent.remark,
        )
    )
    record = PromptRecord(
        id=id_,
        round=round_,
        slot=slot,
        island=pick.island,
        cell=pick.cell,
        parent=pick.parent,
        inspirations=pick.inspirations,
        arm=pick.arm,
        probability=pick.probability,
        weights=pick.weights,
        text=text,
        tokens=tokens,
    )
    ask = Ask(view, text, tokens, tuple(o.source for o in others), (config.seed, round_, slot))
    return record, ask
