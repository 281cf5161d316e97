"""The loop of a run: propose, evaluate, archive and, every few rounds, learn.

A candidate passes through :mod:`evolve.rounds` (proposed and committed), the sandbox (judged and
committed) and :mod:`evolve.state` (archived when the round closes). A process killed between any
two of these commits leaves a run that resumes to the same end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Protocol

from evolve.config import Config
from evolve.errors import PolicyError, TaskError
from evolve.evaluate import Evaluation
from evolve.policy import Policy, StoppedError
from evolve.program import check
from evolve.records import (
    EVALUATE,
    JUDGE_ERROR,
    OVER_BUDGET,
    Candidate,
    EvaluationRecord,
    VersionRecord,
)
from evolve.rounds import Proposal, propose
from evolve.sandbox import Status
from evolve.state import SearchState, empty_state, migrates, restore_state
from evolve.store import Store
from evolve.task import Task

Evaluate = Callable[[str], Evaluation]

#: Rounds in a row without a candidate to evaluate after which a run gives up.
IDLE_ROUNDS = 25

#: Candidates in a row on which the judge raises after which a run gives up.
JUDGE_ERRORS = 20


@dataclass(frozen=True)
class RoundReport:
    """What a round did, and where the run stands after it.

    Attributes:
        round: The round, from 0.
        version: The policy version that proposed.
        answers: Answers asked for.
        fates: Answers by what became of them: ``evaluate``, ``duplicate``, or what was wrong.
        statuses: Evaluated candidates by verdict.
        new: Candidates that opened a cell.
        improved: Candidates that improved a cell.
        evaluations: Candidates evaluated in the run so far.
        seconds: Wall-clock seconds of the round, training not included.
        coverage: Share of cells occupied, over all islands.
        qd_score: Sum over cells of the best mean reward.
        vector_qd_score: Sum over cells of the set utility of the cell's champions.
        set_utility: Set utility of the whole archive, in [0, 1].
        best_mean: Best mean reward, in [0, 1].
        best: Best reward of each objective.
        programs: Distinct programs held.
    """

    round: int
    version: int
    answers: int
    fates: dict[str, int]
    statuses: dict[str, int]
    new: int
    improved: int
    evaluations: int
    seconds: float
    coverage: float
    qd_score: float
    vector_qd_score: float
    set_utility: float
    best_mean: float
    best: tuple[float, ...]
    programs: int

    @property
    def counted(self) -> int:
        """Answers asked for, without those that came after the end of the budget."""
        return self.answers - self.fates.get(OVER_BUDGET, 0)

    @property
    def valid_share(self) -> float:
        """Share of the counted answers that ran and were judged valid."""
        return self.statuses.get("ok", 0) / self.counted if self.counted else 0.0

    @property
    def improvement_rate(self) -> float:
        """Share of the evaluated candidates that the archive took."""
        evaluated = sum(self.statuses.values())
        return (self.new + self.improved) / evaluated if evaluated else 0.0


class Observer(Protocol):
    """Is told what happens, as it happens."""

    def on_start(self, config: Config, state: SearchState, rounds: int) -> None:
        """The run begins, or goes on after ``rounds`` closed rounds."""

    def on_progress(self, round_: int, proposed: int, evaluated: int) -> None:
        """Candidates of the current round so far."""

    def on_round(self, report: RoundReport) -> None:
        """A round is closed."""

    def on_learning(self, round_: int) -> None:
        """The policy is being trained."""

    def on_version(self, record: VersionRecord) -> None:
        """An update ended, accepted or not."""

    def on_event(self, kind: str, text: str) -> None:
        """Something that a user should know of."""


class Learner(Protocol):
    """Trains the policy from the stored rollouts."""

    def load(self, version: int) -> None:
        """Make the policy sample from a stored version."""

    def update(self, store: Store, round_: int) -> VersionRecord | None:
        """Train on the rounds since the last update and commit the outcome; None without one."""


@dataclass
class Campaign:
    """A run in progress.

    Attributes:
        task: The problem.
        config: The configuration.
        store: The run's database, open for writing.
        policy: Who proposes.
        evaluate: Judges a program's source; called from ``sandbox.workers`` threads.
        observer: Is told what happens.
        learner: Trains the policy, None to leave it as it is.
    """

    task: Task
    config: Config
    store: Store
    policy: Policy
    evaluate: Evaluate
    observer: Observer
    learner: Learner | None = None
    state: SearchState = field(init=False)
    _stop: bool = field(default=False, init=False)
    _idle: int = field(default=0, init=False)
    _judge_errors: int = field(default=0, init=False)

    @property
    def stopped(self) -> bool:
        """Whether the run is to end."""
        return self._stop

    def stop(self) -> None:
        """End the run after the candidates in flight; it can be resumed."""
        self._stop = True

    def run(self) -> SearchState:
        """Run until the budget is used up or :meth:`stop` is called; return the final state.

        Raises:
            TaskError: If the judge raises on one candidate after another.
            PolicyError: If the policy proposes nothing that can be evaluated.
        """
        started = time.monotonic()
        config = self.config
        self.state = restore_state(self.store, self.task, config.search, config.seed)
        rounds = self.store.rounds()
        spent = sum(entry["elapsed_s"] for entry in rounds)
        self.observer.on_start(config, self.state, len(rounds))
        round_ = len(rounds)
        with self._workers() as workers:
            while not self._stop:
                self._learn(round_ - 1)
                wall = spent + time.monotonic() - started
                if self._spent(round_, wall) or self._stop:
                    break
                report = self._round(round_, workers)
                if report is None:
                    break
                self._check_alive(report)
                round_ += 1
        return self.state

    def _spent(self, round_: int, wall: float) -> bool:
        budget = self.config.budget
        if self.state.submitted >= budget.evaluations and not self.store.prompts(round_, round_):
            return True
        if budget.wall_s is not None and wall >= budget.wall_s:
            return True
        # Of closed rounds alone, so that a round that was begun is ended after a kill, too.
        used = self.store.usage(round_)
        for name, limit, value in (
            ("tokens", budget.tokens, used.tokens),
            ("cost", budget.cost, used.cost),
        ):
            if limit is not None and value >= limit:
                self.observer.on_event("budget", f"{value:.6g} of {limit:.6g} {name} are used")
                return True
        return False

    def _check_alive(self, report: RoundReport) -> None:
        self._idle = 0 if report.statuses else self._idle + 1
        if self._idle == IDLE_ROUNDS:
            worst = max(report.fates, key=lambda fate: report.fates[fate], default="unreadable")
            raise PolicyError(
                f"policy {self.config.policy.name!r}: {IDLE_ROUNDS} rounds without a new program "
                f"to evaluate; most answers are {worst!r}"
            )

    def _round(self, round_: int, workers: ThreadPoolExecutor) -> RoundReport | None:
        """Run one round; return None if it was stopped before it closed."""
        started = time.monotonic()
        judged = self.store.evaluations_of_rounds(round_, round_)
        running: dict[Future[Evaluation], Candidate] = {}
        verdicts: list[tuple[int, Candidate]] = []
        fates: Counter[str] = Counter()
        for proposal in self._proposals(round_):
            for candidate in proposal.candidates:
                fates[candidate.fate] += 1
                if candidate.fate != EVALUATE:
                    continue
                verdicts.append((proposal.prompt.island, candidate))
                if candidate.id not in judged:
                    running[workers.submit(self.evaluate, candidate.source or "")] = candidate
            self._collect(running, judged, block=False)
            self.observer.on_progress(round_, len(verdicts), len(verdicts) - len(running))
            if self._stop:
                break
        while running:
            self._collect(running, judged, block=True)
            self.observer.on_progress(round_, len(verdicts), len(verdicts) - len(running))
        if self._stop:
            return None
        return self._close(round_, verdicts, judged, fates, time.monotonic() - started)

    def _proposals(self, round_: int) -> Iterator[Proposal]:
        try:
            yield from propose(round_, self.task, self.config, self.state, self.policy, self.store)
        except StoppedError:
            self._stop = True

    def _close(
        self,
        round_: int,
        verdicts: Sequence[tuple[int, Candidate]],
        judged: dict[int, EvaluationRecord],
        fates: Counter[str],
        seconds: float,
    ) -> RoundReport:
        search = self.config.search
        adds = self.state.close_round(
            round_,
            [(island, candidate, judged[candidate.id]) for island, candidate in verdicts],
            migrates(search, round_),
        )
        statuses = Counter(judged[candidate.id].status for _, candidate in verdicts)
        decisions = Counter(add.status for add in adds)
        metrics = self.state.islands.metrics()
        report = RoundReport(
            round=round_,
            version=self.policy.version,
            answers=search.prompts * search.rollouts * search.answers,
            fates=dict(fates),
            statuses=dict(statuses),
            new=decisions["new"],
            improved=decisions["improved"],
            evaluations=self.state.submitted,
            seconds=seconds,
            coverage=metrics.coverage,
            qd_score=metrics.qd_score,
            vector_qd_score=metrics.vector_qd_score,
            set_utility=metrics.set_utility,
            best_mean=metrics.best_mean,
            best=tuple(float(value) for value in metrics.best),
            programs=metrics.n_programs,
        )
        kept = asdict(report)
        del kept["round"], kept["version"]
        with self.store.transaction():
            self.store.add_adds(adds)
            self.store.close_round(round_, report.version, seconds, kept)
        self.observer.on_round(report)
        return report

    def _learn(self, round_: int) -> None:
        every = self.config.training.every
        if self.learner is None or not every or round_ < 0 or (round_ + 1) % every:
            return
        if self.store.meta("learned") is not None and self.store.meta("learned") >= round_:
            return
        self.observer.on_learning(round_)
        record = self.learner.update(self.store, round_)
        if record is not None:
            self.observer.on_version(record)

    def _collect(
        self,
        running: dict[Future[Evaluation], Candidate],
        judged: dict[int, EvaluationRecord],
        block: bool,
    ) -> None:
        if block:
            # A second at most, so that a stop asked for from another thread is seen.
            wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
        done = [future for future in running if future.done()]
        records = [self._verdict(running.pop(future).id, future) for future in done]
        if records:
            with self.store.transaction():
                self.store.add_evaluations(records)
        judged.update((record.candidate, record) for record in records)

    def _verdict(self, candidate: int, future: Future[Evaluation]) -> EvaluationRecord:
        try:
            record = _record(candidate, future.result())
        except TaskError as error:
            # One odd program must not end a night's run; a judge that always fails must.
            self._judge_errors += 1
            if self._judge_errors == JUDGE_ERRORS:
                raise
            self.observer.on_event("judge error", f"program {candidate}: {error}")
            return EvaluationRecord(
                candidate, JUDGE_ERROR, "", None, {}, None, str(error), 0.0, 0.0, 0
            )
        self._judge_errors = 0
        if record.status == Status.QUARANTINED:
            text = f"program {candidate}: {record.feedback}"
            with self.store.transaction():
                self.store.add_event(len(self.store.rounds()), "quarantine", text)
            self.observer.on_event("quarantine", text)
        return record

    @contextmanager
    def _workers(self) -> Iterator[ThreadPoolExecutor]:
        executor = ThreadPoolExecutor(self.config.sandbox.workers, "evaluate")
        try:
            yield executor
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def judge_start(task: Task, evaluate: Evaluate) -> Evaluation:
    """Return the verdict on the starting program.

    Raises:
        TaskError: If it is not valid.
    """
    verdict = evaluate(task.initial)
    if verdict.rewards is None:
        raise TaskError(
            f"{task.start}: the starting program fails ({verdict.status}): {verdict.feedback}"
        )
    return verdict


def plant(store: Store, task: Task, config: Config, verdict: Evaluation) -> None:
    """Commit the starting program as candidate 0 of a new run."""
    fingerprint = check(task.initial).fingerprint
    seed = Candidate(0, None, 0, (0, 0), None, EVALUATE, "", None, task.initial, fingerprint, "")
    record = _record(0, verdict)
    adds = empty_state(task, config.search, config.seed).plant(seed, record)
    with store.transaction():
        store.add_candidates([seed])
        store.add_evaluations([record])
        store.add_adds(adds)


def _record(candidate: int, verdict: Evaluation) -> EvaluationRecord:
    return EvaluationRecord(
        candidate=candidate,
        status=str(verdict.status),
        stage=verdict.stage,
        rewards=verdict.rewards,
        raw=dict(verdict.values),
        descriptors=verdict.descriptors,
        feedback=verdict.feedback,
        wall_s=verdict.wall_s,
        cpu_s=verdict.cpu_s,
        max_rss_kb=verdict.max_rss_kb,
    )
