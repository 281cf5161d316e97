"""What the search knows: a pure fold over the stored candidates, verdicts and rounds.

A resumed run folds its database and stands where it stood. Nothing here draws random numbers,
writes or runs a program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from evolve.archive import Archive, Islands, WeightBank, weight_bank
from evolve.config import Search
from evolve.ranges import RunningObjective
from evolve.records import EVALUATE, AddRecord, Candidate, EvaluationRecord
from evolve.seeding import rng_for
from evolve.store import Store
from evolve.task import Task
from evolve.tessellation import Grid, Tessellation, make_cvt


@dataclass(frozen=True)
class Program:
    """A valid program of the run."""

    id: int
    source: str
    rewards: tuple[float, ...]
    descriptors: tuple[float, ...]
    #: What the task had to say of it, see :attr:`evolve.task.Task.remark`.
    remark: str = ""


@dataclass
class SearchState:
    """The archives and what has been tried.

    Attributes:
        islands: One archive an island.
        programs: Every valid program, by id.
        known: Fingerprint -> id of the first candidate with it that was sent to the sandbox.
        feedback: Parent id -> what went wrong with its last failed child.
        submitted: Candidates sent to the sandbox so far, the starting program not counted.
        running: The objectives whose scale grows, at the end of each round.
    """

    islands: Islands
    programs: dict[int, Program] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    feedback: dict[int, str] = field(default_factory=dict)
    submitted: int = 0
    running: tuple[RunningObjective, ...] = ()

    def note_candidate(self, candidate: Candidate) -> None:
        """Take note of a proposed candidate."""
        if candidate.fate == EVALUATE and candidate.fingerprint is not None:
            self.known.setdefault(candidate.fingerprint, candidate.id)
            self.submitted += candidate.parent is not None

    def plant(self, seed: Candidate, verdict: EvaluationRecord) -> list[AddRecord]:
        """Put the starting program on every island, before round 0 chooses its parents."""
        everywhere = [(island, seed, verdict) for island in range(len(self.islands))]
        return self.close_round(-1, everywhere, migrate=False)

    def close_round(
        self,
        round_: int,
        verdicts: Iterable[tuple[int, Candidate, EvaluationRecord]],
        migrate: bool,
    ) -> list[AddRecord]:
        """Offer the candidates of a round to their islands, then migrate if it is time.

        Args:
            round_: The round.
            verdicts: (island, candidate, its verdict) in the order of candidate ids.
            migrate: Whether islands exchange champions after this round.

        Returns:
            What the archives decided, in order.
        """
        verdicts = list(verdicts)
        adds = []
        for island, candidate, verdict in verdicts:
            if verdict.rewards is None or verdict.descriptors is None:
                if candidate.parent is not None and verdict.feedback:
                    self.feedback[candidate.parent] = verdict.feedback
                continue
            source = candidate.source or ""
            self.programs[candidate.id] = Program(
                candidate.id, source, verdict.rewards, verdict.descriptors, verdict.feedback
            )
            added = self.islands[island].add(
                candidate.id,
                np.asarray(verdict.rewards),
                np.asarray(verdict.descriptors),
                len(source),
            )
            adds.append(
                AddRecord(round_, island, candidate.id, added.cell, added.status, added.value)
            )
        for objective in self.running:
            # Of all that were judged to the end, in one step: the order of verdicts is no matter.
            objective.extend(v.raw[objective.name] for *_, v in verdicts if v.rewards is not None)
        if migrate:
            self.islands.migrate()
        return adds

    def best(self) -> Program:
        """Return the program with the largest mean reward; ties go to the older one."""
        return max(self.programs.values(), key=lambda p: (sum(p.rewards), -p.id))


def empty_state(task: Task, search: Search, seed: int) -> SearchState:
    """Return the state before the starting program.

    The weight bank and the cells depend on the task, the search section and the seed alone.
    """
    cells, bank = _cells(task, search, seed), _bank(task, search, seed)
    running = tuple(o for o in task.objectives if isinstance(o, RunningObjective))
    for objective in running:
        objective.scale.reset()
    islands = Islands([Archive(cells, bank) for _ in range(search.islands)])
    return SearchState(islands, running=running)


def restore_state(store: Store, task: Task, search: Search, seed: int) -> SearchState:
    """Return the state after the last closed round of a stored run.

    Candidates proposed in a round that is not closed yet are noted but not in the archive.
    """
    ((_, _, state),) = deque(replay(store, task, search, seed), maxlen=1)
    return state


def replay(
    store: Store, task: Task, search: Search, seed: int
) -> Iterator[tuple[int, bool, SearchState]]:
    """Yield a stored run as it went: (candidates judged, whether a round is closed, state).

    First comes the state with the starting program alone, then one after each verdict of the
    closed rounds in the order of candidates, and one after each round, when champions may have
    travelled. It is the same object every time; what it knows of candidates it knows at once.
    """
    state = empty_state(task, search, seed)
    places = store.rollout_places()
    verdicts = {record.candidate: record for record in store.evaluations()}
    batches: dict[int, list[tuple[int, Candidate, EvaluationRecord]]] = {}
    for candidate in store.candidates():
        state.note_candidate(candidate)
        if candidate.rollout is not None and candidate.id in verdicts:
            round_, island = places[candidate.rollout]
            batches.setdefault(round_, []).append((island, candidate, verdicts[candidate.id]))
    state.plant(store.candidate(0), verdicts[0])
    judged = 0
    yield judged, True, state
    for round_ in range(len(store.rounds())):
        for judgement in batches.get(round_, []):
            state.close_round(round_, [judgement], migrate=False)
            judged += 1
            yield judged, False, state
        state.close_round(round_, [], migrates(search, round_))
        yield judged, True, state


def migrates(search: Search, round_: int) -> bool:
    """Return whether islands exchange champions at the end of a round."""
    return search.islands > 1 and round_ > 0 and round_ % search.migrate_every == 0


def _cells(task: Task, search: Search, seed: int) -> Tessellation:
    lows = np.array([axis.low for axis in task.descriptors])
    highs = np.array([axis.high for axis in task.descriptors])
    if search.cells == "cvt":
        return make_cvt(lows, highs, search.cvt_cells, rng_for(seed, "cvt"))
    return Grid(lows, highs, tuple(axis.bins for axis in task.descriptors))


def _bank(task: Task, search: Search, seed: int) -> WeightBank:
    return weight_bank(task.k, search.alpha, search.bank, rng_for(seed, "weight bank"))
