"""Judging a candidate: its answers come out of the sandbox, its scores are worked out here.

A failing candidate is data, an :class:`Evaluation` with a status and a line of feedback. A failing
judge is an error of the task, and stops the run.
"""

from __future__ import annotations

import ast
import hashlib
import math
import traceback
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evolve.descriptors import BUILTIN, text_length
from evolve.errors import TaskError
from evolve.files import is_python
from evolve.program import parse_source, syntax_place
from evolve.sandbox import Pool, Status, Usage
from evolve.sandbox.text import clean
from evolve.task import SPEEDUP, BelowFloor, Case, Invalid, Stage, Task
from evolve.timing import TimedRunError, measure

_FEEDBACK = 500
_PRINTED = 200


@dataclass(frozen=True)
class Evaluation:
    """The verdict on a candidate.

    Attributes:
        status: ``OK`` if the candidate passed every stage.
        rewards: (k,) in [0, 1], in the order of the task's objectives; None unless ``OK``: what a
            candidate did not finish is unknown, not zero.
        values: Raw values, mean over the cases judged so far, whatever the status.
        descriptors: One value an axis, in the order of the task's descriptors; None unless ``OK``.
        feedback: One line on what went wrong, safe to print. If nothing did, the remarks of the
            task on its answers, empty without any.
        stage: Name of the last stage entered, empty if the program did not get that far.
        wall_s: Seconds that the candidate took to answer, all cases together.
        cpu_s: CPU seconds of its process, loading included.
        max_rss_kb: Peak memory of its process, KiB.
        outputs_digest: Digest of its answers; equal for two runs of a deterministic program.
        printed: End of what it printed, bounded and safe to print.
    """

    status: Status
    rewards: tuple[float, ...] | None
    values: dict[str, float]
    descriptors: tuple[float, ...] | None
    feedback: str
    stage: str
    wall_s: float
    cpu_s: float
    max_rss_kb: int
    outputs_digest: str
    printed: str


def open_pool(task: Task, workers: int, min_tier: str = "B") -> Pool:
    """Return warm workers for a task, with a lane if it is timed.

    Raises:
        TaskError, SandboxError: As :class:`evolve.sandbox.Pool`.
    """
    return Pool(
        task.runner,
        task.preload,
        task.limits,
        workers,
        min_tier,
        lane=task.timing is not None,
        command=task.command,
    )


def evaluate(task: Task, source: str, pool: Pool) -> Evaluation:
    """Return the verdict on one program.

    A candidate whose worker is lost is tried once more, then recorded as ``SANDBOX_ERROR``.

    Args:
        task: The problem.
        source: The program.
        pool: Workers of the task, see :func:`open_pool`.

    Raises:
        TaskError: If the judge raises, or leaves an objective or a descriptor without a number.
        SandboxError: If workers keep dying.
    """
    verdict = _evaluate_once(task, source, pool)
    if verdict.status == Status.SANDBOX_ERROR:
        verdict = _evaluate_once(task, source, pool)
    return verdict


def evaluate_many(
    task: Task, sources: Iterable[str], pool: Pool
) -> Iterator[tuple[int, Evaluation]]:
    """Yield (index, verdict) for each program, in the order in which they are finished.

    Raises:
        TaskError, SandboxError: As :func:`evaluate`.
    """
    pending = iter(enumerate(sources))
    running: dict[Future[Evaluation], int] = {}
    executor = ThreadPoolExecutor(pool.workers, "evaluate")
    try:
        while True:
            # Twice as many as workers: none waits for the next program, and few are lost at a stop.
            while len(running) < 2 * pool.workers and (entry := next(pending, None)):
                running[executor.submit(evaluate, task, entry[1], pool)] = entry[0]
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@dataclass
class _Tally:
    """What is known about a candidate so far."""

    raw: dict[str, list[float]] = field(default_factory=dict)
    #: Objective -> reward of each case that reports it, of the whole program and of this stage.
    rewards: dict[str, list[float]] = field(default_factory=dict)
    in_stage: dict[str, list[float]] = field(default_factory=dict)
    stage: str = ""
    wall_s: float = 0.0
    remarks: list[str] = field(default_factory=list)
    #: Case -> digest of its answer.
    answers: dict[str, str] = field(default_factory=dict)
    digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    def add(self, task: Task, scores: Mapping[str, float], where: str) -> None:
        """Note what the judge returned for one case."""
        objectives = {objective.name: objective for objective in task.objectives}
        for name, value in _checked(task, scores, where).items():
            self.raw.setdefault(name, []).append(value)
            if name in objectives:
                objective = objectives[name]
                if objective.beyond(value):
                    raise _Failed(
                        Status.QUARANTINED,
                        f"{where}: {name} is {value:.6g}, and nothing can surpass "
                        f"{objective.bound:g}",
                    )
                reward = objective.reward(value)
                self.rewards.setdefault(name, []).append(reward)
                self.in_stage.setdefault(name, []).append(reward)

    def values(self) -> dict[str, float]:
        """Return the mean of each raw value."""
        return {name: _mean(values) for name, values in self.raw.items()}


class _Failed(Exception):  # noqa: N818 - a verdict, not an error
    """Ends an evaluation with a status and its feedback."""

    def __init__(self, status: Status, feedback: str) -> None:
        super().__init__(feedback)
        self.status = status
        self.feedback = feedback


def _evaluate_once(task: Task, source: str, pool: Pool) -> Evaluation:
    tally = _Tally()
    usage = Usage(0.0, 0, "", 0)
    status, feedback, rewards, descriptors = Status.OK, "", None, None
    try:
        try:
            tree = parse_source(source) if is_python(source) else None
        except SyntaxError as error:
            raise _Failed(Status.SYNTAX_ERROR, f"{syntax_place(error)}{error.msg}") from None
        _inspect(task, source, tally)
        session = pool.session(source)
        try:
            for stage in task.stages:
                _run_stage(task, stage, session.call, tally)
        finally:
            usage = session.close()
        _time(task, source, pool, tally)
        rewards = _rewards(task, tally)
        descriptors = _descriptors(task, source, tree, tally)
        feedback = clean("; ".join(tally.remarks), _FEEDBACK)
    except _Failed as failed:
        status, feedback = failed.status, clean(failed.feedback, _FEEDBACK)
        if status in (Status.CRASHED, Status.EXITED_EARLY) and usage.stderr_tail:
            # Nobody but the process itself knew why.
            feedback += f"; it printed: {clean(usage.stderr_tail[-_PRINTED:], _PRINTED)}"
    return Evaluation(
        status=status,
        rewards=rewards,
        values=tally.values(),
        descriptors=descriptors,
        feedback=feedback,
        stage=tally.stage,
        wall_s=tally.wall_s,
        cpu_s=usage.cpu_s,
        max_rss_kb=usage.max_rss_kb,
        outputs_digest=tally.digest.hexdigest(),
        printed=usage.stderr_tail,
    )


def _run_stage(task: Task, stage: Stage, call: Any, tally: _Tally) -> None:
    tally.stage, tally.in_stage = stage.name, {}
    for case in map(task.case, stage.cases):
        reply = call(case.given)
        tally.wall_s += reply.wall_s
        if reply.status != Status.OK:
            raise _Failed(reply.status, f"case {case.name}: {reply.detail}")
        tally.digest.update(reply.digest.encode())
        tally.answers[case.name] = reply.digest
        tally.add(task, _judge(task, reply.output, case), f"case {case.name!r}")
        if task.remark is not None and (remark := task.remark(reply.output, case)):
            tally.remarks.append(remark)
    for name, floor in stage.floors.items():
        if name not in tally.in_stage:
            raise TaskError(
                f"{_file(task)}: stage {stage.name!r}: its floor asks for {name!r}, which no "
                f"case of the stage reports; reported: {sorted(tally.in_stage)}"
            )
        reached = _mean(tally.in_stage[name])
        if reached < floor:
            raise _Failed(
                Status.STAGE_FLOOR,
                f"stage {stage.name}: reward {name} is {reached:.4g}, at least {floor:g} is needed",
            )


def _time(task: Task, source: str, pool: Pool, tally: _Tally) -> None:
    if task.timing is None:
        return
    if pool.lane is None:
        raise TaskError(f"{_file(task)}: a task with a timing needs a pool with a lane")
    tally.stage = "timing"
    try:
        speedup = measure(task, task.timing, source, pool.lane, tally.answers)
    except TimedRunError as failed:
        raise _Failed(failed.status, str(failed)) from None
    tally.add(task, {SPEEDUP: speedup}, "timing")


def _judge(task: Task, output: Any, case: Case) -> Mapping[str, float]:
    try:
        return task.score(output, case)
    except Invalid as verdict:
        status = Status.STAGE_FLOOR if isinstance(verdict, BelowFloor) else Status.WRONG
        raise _Failed(status, f"case {case.name}: {verdict}") from None
    # A judge that calls sys.exit is as much at fault as one that divides by zero.
    except (Exception, SystemExit) as error:
        raise TaskError(
            f"{_where(task, error)}: score raised {type(error).__name__} on case {case.name!r}: "
            f"{clean(str(error), _FEEDBACK)}"
        ) from error


def _inspect(task: Task, source: str, tally: _Tally) -> None:
    if task.inspect is None:
        return
    try:
        scores = task.inspect(source)
    except Invalid as verdict:
        raise _Failed(Status.WRONG, str(verdict)) from None
    except RecursionError:
        # It parses, so the depth is the candidate's doing and not the judge's.
        raise _Failed(Status.WRONG, "the program is nested too deeply to be measured") from None
    except (Exception, SystemExit) as error:
        raise TaskError(
            f"{_where(task, error)}: inspect raised {type(error).__name__}: "
            f"{clean(str(error), _FEEDBACK)}"
        ) from error
    tally.add(task, scores, "inspect")


def _checked(task: Task, scores: Any, where: str) -> dict[str, float]:
    """Return a judge's scores as plain floats."""
    if not isinstance(scores, Mapping):
        raise TaskError(
            f"{_file(task)}: {where}: the judge returned {type(scores).__name__}, a dict of "
            "name -> number is needed"
        )
    needed = {o.name for o in task.objectives} | {d.name for d in task.descriptors}
    checked = {}
    for name, value in scores.items():
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            if name not in needed:
                # Only noted beside the rewards; an undefined remark is no fault.
                continue
            raise TaskError(
                f"{_file(task)}: {where}: {name!r} is {clean(repr(value), 60)}, a finite "
                "number is needed"
            )
        checked[str(name)] = number
    return checked


def _rewards(task: Task, tally: _Tally) -> tuple[float, ...]:
    for objective in task.objectives:
        if objective.name not in tally.rewards:
            raise TaskError(
                f"{_file(task)}: no case reports the objective {objective.name!r}; reported: "
                f"{sorted(tally.raw)}"
            )
    return tuple(_mean(tally.rewards[objective.name]) for objective in task.objectives)


def _descriptors(
    task: Task, source: str, tree: ast.Module | None, tally: _Tally
) -> tuple[float, ...]:
    measured = []
    for descriptor in task.descriptors:
        name = descriptor.name
        if name in tally.raw:
            measured.append(_mean(tally.raw[name]))
        elif tree is None:
            if name != "code_length":
                raise TaskError(
                    f"{_file(task)}: the descriptor {name!r} is not reported, and of programs "
                    "that are not Python 'code_length' alone is built in"
                )
            measured.append(text_length(source))
        elif name in BUILTIN:
            try:
                measured.append(float(BUILTIN[name](source, tree)))
            except RecursionError:
                detail = "the program is nested too deeply to be measured"
                raise _Failed(Status.WRONG, detail) from None
        else:
            raise TaskError(
                f"{_file(task)}: the descriptor {name!r} is neither built in "
                f"({', '.join(sorted(BUILTIN))}) nor reported; reported: {sorted(tally.raw)}"
            )
    return tuple(measured)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _file(task: Task) -> str:
    return str(task.folder / "task.py")


def _where(task: Task, error: BaseException) -> str:
    """Return file and line of the task's code at which ``error`` passed last."""
    judge = _file(task)
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename) == Path(judge)
    ]
    return f"{judge}, line {lines[-1]}" if lines else judge
