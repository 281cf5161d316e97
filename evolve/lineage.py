"""Where a program came from: its ancestry, step by step, and as a graph."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evolve.records import Candidate, EvaluationRecord
from evolve.store import Store

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True)
class Step:
    """A program of a lineage.

    Attributes:
        candidate: The program.
        verdict: Its evaluation.
        round: The round that proposed it, -1 for the starting program.
        version: The policy version that wrote the edit, None for the starting program.
    """

    candidate: Candidate
    verdict: EvaluationRecord
    round: int
    version: int | None

    @property
    def mean(self) -> float:
        """Mean reward, in [0, 1]."""
        rewards = self.verdict.rewards or ()
        return sum(rewards) / len(rewards) if rewards else 0.0


def ancestry(store: Store, program: int) -> list[Step]:
    """Return the steps from the starting program to ``program``, both included."""
    steps = []
    next_id: int | None = program
    while next_id is not None:
        step = _step(store, store.candidate(next_id))
        steps.append(step)
        next_id = step.candidate.parent
    return steps[::-1]


def best_program(store: Store) -> int:
    """Return the id of the program with the largest mean reward; ties go to the older one."""
    valid = ((sum(v.rewards), -v.candidate) for v in store.evaluations() if v.rewards is not None)
    return -max(valid)[1]


def changes(before: str, after: str) -> list[str]:
    """Return the changed lines of a step, ``-`` removed and ``+`` added, blank ones left out."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))
    return [line for line in lines[2:] if line[:1] in "+-" and line[1:].strip()]


def lineage_graph(steps: list[Step]) -> networkx.DiGraph[int]:
    """Return an ancestry as a graph: nodes are program ids, edges carry what changed."""
    import networkx as nx

    graph: networkx.DiGraph[int] = nx.DiGraph()
    for generation, step in enumerate(steps):
        graph.add_node(
            step.candidate.id, generation=generation, mean=step.mean, version=step.version
        )
        if generation:
            before = steps[generation - 1]
            graph.add_edge(
                before.candidate.id,
                step.candidate.id,
                operator=step.candidate.operator,
                gain=step.mean - before.mean,
                lines=changes(before.candidate.source or "", step.candidate.source or ""),
            )
    return graph


def _step(store: Store, candidate: Candidate) -> Step:
    verdict = store.evaluation(candidate.id)
    if verdict is None:
        raise ValueError(f"program {candidate.id} was not evaluated: {candidate.fate}")
    if candidate.rollout is None:
        return Step(candidate, verdict, -1, None)
    round_, version = store.origin(candidate.rollout)
    return Step(candidate, verdict, round_, version)
