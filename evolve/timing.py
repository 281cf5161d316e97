"""How fast a program is: runs in a lane of its own, in turn with a reference.

Covered: a noisy machine (each figure is a ratio of two runs beside each other, and the median of
several), memory of earlier runs (each is a fresh process), answers that are only right when nobody
counts (they must be the same as in the ordinary run), lucky records (measured twice). Not covered:
other users of the machine, with whom the lane shares caches and memory bandwidth.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

from evolve.errors import TaskError
from evolve.sandbox import Pool, Reply, Status
from evolve.task import Case, Task, Timing


class TimedRunError(Exception):
    """The program fails, or answers otherwise, when it is timed; a verdict on it."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def measure(
    task: Task, timing: Timing, source: str, lane: Pool, answers: Mapping[str, str]
) -> float:
    """Return how many times as fast as the reference a program is.

    Args:
        task: The problem.
        timing: How to measure.
        source: The program.
        lane: A pool of one worker on a core of its own.
        answers: Case name -> digest of the answer that was judged.

    Raises:
        TimedRunError: If the program fails in a timed run or answers otherwise than before.
        TaskError: If the reference fails.
    """
    cases = [task.case(name) for name in timing.cases or answers]
    reference = timing.reference or task.initial

    def own_time() -> float:
        seconds, replies = _run(source, cases, lane)
        for case, reply in zip(cases, replies, strict=False):
            if reply.status != Status.OK:
                raise TimedRunError(reply.status, f"case {case.name}, timed: {reply.detail}")
            if reply.digest != answers[case.name]:
                raise TimedRunError(
                    Status.WRONG, f"case {case.name}: the answer differs from run to run"
                )
        return seconds

    def reference_time() -> float:
        seconds, replies = _run(reference, cases, lane)
        failed = [reply for reply in replies if reply.status != Status.OK]
        if failed and failed[0].status == Status.SANDBOX_ERROR:
            raise TimedRunError(Status.SANDBOX_ERROR, failed[0].detail)
        if failed:
            raise TaskError(
                f"{task.folder / 'task.py'}: timing: the reference fails ({failed[0].status}): "
                f"{failed[0].detail}"
            )
        return seconds

    def speedup() -> float:
        ratios = []
        for pair in range(timing.pairs):
            # Taking turns at going first, so that a drift of the machine favours neither.
            if pair % 2:
                theirs, own = reference_time(), own_time()
            else:
                own, theirs = own_time(), reference_time()
            ratios.append(theirs / own)
        return statistics.median(ratios)

    with lane.turn:
        found = speedup()
        if found > lane.fastest:
            # The luckiest of many measurements is too good to be true.
            found = min(found, speedup())
            lane.fastest = max(lane.fastest, found)
    return found


def _run(source: str, cases: Sequence[Case], lane: Pool) -> tuple[float, list[Reply]]:
    """Return the seconds from the fork to the last answer, and the answers up to a failure."""
    started = time.monotonic()
    with lane.session(source) as session:
        session.load()
        seconds, replies = time.monotonic() - started, []
        for case in cases:
            replies.append(session.call(case.given))
            seconds += replies[-1].wall_s
            if replies[-1].status != Status.OK:
                break
    return seconds, replies
