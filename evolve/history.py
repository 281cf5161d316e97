"""A stored run read once, for whoever shows it: plots, comparison, report, page.

Nothing here writes, and everything follows from the store and the configuration beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evolve.config import Config, load_config
from evolve.errors import StoreError
from evolve.islands import ArchiveMetrics
from evolve.lineage import Step, ancestry, best_program
from evolve.records import DUPLICATE, EVALUATE, OVER_BUDGET, AddRecord, VersionRecord
from evolve.state import SearchState, replay
from evolve.store import Store
from evolve.task import Task, load_task

Floats = npt.NDArray[np.float64]

#: What became of an update. Dropped: refused before use. Rolled back: used, and worse.
Outcome = Literal["kept", "dropped", "rolled back"]

#: Figures of the archive are taken about so many times over a run, beside the ends of rounds.
POINTS = 200

#: What becomes of an answer, best first.
FATES = ("taken", "valid", "failed", "repeated", "no program")


@dataclass(frozen=True)
class History:
    """What a run did.

    Attributes:
        folder: The run folder.
        config: Its configuration.
        task: Its problem.
        state: Archives and valid programs after the last closed round.
        trace: (candidates evaluated, figures of the archive) from the starting program alone to
            the last closed round, at the end of every round and some :data:`POINTS` times between.
        rounds: The closed rounds in order, see :meth:`evolve.store.Store.rounds`.
        versions: Every policy update, in order.
        adds: Every decision of the archives, in order.
        parents: Program id -> parent id, for every valid program but the first.
        lineage: From the starting program to the best one.
    """

    folder: Path
    config: Config
    task: Task
    state: SearchState
    trace: Sequence[tuple[int, ArchiveMetrics]]
    rounds: Sequence[Mapping[str, Any]]
    versions: Sequence[VersionRecord]
    adds: Sequence[AddRecord]
    parents: Mapping[int, int]
    lineage: Sequence[Step]

    def curve(self, name: str) -> tuple[Floats, Floats]:
        """Return evaluations (n,) and a figure of the archive (n,) or (n, k) after so many.

        Args:
            name: A field of :class:`ArchiveMetrics`.
        """
        evaluations = [evaluations for evaluations, _ in self.trace]
        values = [getattr(metrics, name) for _, metrics in self.trace]
        return np.array(evaluations, np.float64), np.array(values, np.float64)

    def updates(self) -> list[tuple[float, Outcome, VersionRecord]]:
        """Return (evaluations so far, outcome, record) of each policy update, in order."""
        seen = {entry["round"]: float(entry["evaluations"]) for entry in self.rounds}
        return [(seen.get(v.round, 0.0), outcome(v), v) for v in self.versions]


def read_history(folder: Path) -> History:
    """Return the history of a run folder, which may be running.

    Raises:
        StoreError: If it holds no run, or one without a verdict on its starting program.
        EvolveError: If its configuration or its task cannot be read.
    """
    with Store(folder) as store:
        config = load_config(folder / "config.toml")
        task = load_task(config.task)
        if store.evaluation(0) is None:
            raise StoreError(f"{folder}: nothing to show, no program has been judged yet")
        closed = {entry["round"]: entry for entry in store.rounds()}
        last = max((entry["evaluations"] for entry in closed.values()), default=0)
        every = max(1, last // POINTS)
        trace = []
        for judged, round_closed, state in replay(store, task, config.search, config.seed):
            if round_closed or judged % every == 0:
                trace.append((judged, state.islands.metrics()))
        return History(
            folder=folder,
            config=config,
            task=task,
            state=state,
            trace=trace,
            rounds=list(closed.values()),
            versions=store.versions(),
            adds=list(store.adds()),
            parents={
                candidate.id: candidate.parent
                for candidate in store.candidates()
                if candidate.id in state.programs and candidate.parent is not None
            },
            lineage=ancestry(store, best_program(store)),
        )


def outcome(version: VersionRecord) -> Outcome:
    """Return what became of a policy update."""
    if version.active:
        return "kept"
    return "rolled back" if version.stats.get("accepted") else "dropped"


def answer_shares(rounds: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, float]]:
    """Return policy version -> what became of its answers, as shares of all that it was asked for.

    The shares of :data:`FATES` sum to 1, answers that came after the end of the budget left out;
    ``answers`` is how many they are shares of.

    - ``taken``: valid, never seen before, and the archive took it;
    - ``valid``: valid and new to the run, but no champion;
    - ``failed``: ran, and failed or was refused by the judge;
    - ``repeated``: a program that the run had seen;
    - ``no program``: missing, unreadable, or an edit that does not give one.
    """
    tallies: dict[int, Counter[str]] = {}
    for entry in rounds:
        tally = tallies.setdefault(entry["version"], Counter())
        fates, statuses = entry["fates"], entry["statuses"]
        taken = entry["new"] + entry["improved"]
        tally["answers"] += entry["answers"] - fates.get(OVER_BUDGET, 0)
        tally["taken"] += taken
        tally["valid"] += statuses.get("ok", 0) - taken
        tally["failed"] += fates.get(EVALUATE, 0) - statuses.get("ok", 0)
        tally["repeated"] += fates.get(DUPLICATE, 0)
    shares = {}
    for version, tally in sorted(tallies.items()):
        asked = tally["answers"]
        if not asked:
            continue
        found = {fate: tally[fate] / asked for fate in FATES[:-1]}
        shares[version] = {**found, FATES[-1]: 1.0 - sum(found.values()), "answers": float(asked)}
    return shares


def nondominated(rewards: Floats) -> npt.NDArray[np.bool_]:
    """Return which rows of ``rewards`` (n, k) no other row dominates; equal rows all count.

    A row dominates another if it is nowhere smaller and somewhere larger.
    """
    rows, back = np.unique(rewards, axis=0, return_inverse=True)
    # Only a row with a larger sum can dominate, so one pass over the front so far is enough.
    order = np.argsort(-rows.sum(axis=1), kind="stable")
    front = np.empty_like(rows)
    size = 0
    keeps = np.zeros(len(rows), dtype=bool)
    for index in order:
        row = rows[index]
        if not (front[:size] >= row).all(axis=1).any():
            front[size] = row
            size += 1
            keeps[index] = True
    return np.asarray(keeps[back.reshape(-1)])
