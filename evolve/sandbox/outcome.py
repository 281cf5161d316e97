"""What can become of a candidate: a status, never a magic score."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """The verdict on a candidate or on one of its answers."""

    #: It answered.
    OK = "ok"
    #: The judge refused the answer.
    WRONG = "wrong"
    #: It missed a floor of a stage, so that later stages were not run.
    STAGE_FLOOR = "stage_floor"
    #: The answer is not plain data, or breaks a cap on depth or size of a number.
    INVALID_OUTPUT = "invalid_output"
    #: It raised.
    EXCEPTION = "exception"
    #: It does not compile.
    SYNTAX_ERROR = "syntax_error"
    #: It used up the wall-clock time of a case.
    TIMEOUT_WALL = "timeout_wall"
    #: It used up its CPU time.
    TIMEOUT_CPU = "timeout_cpu"
    #: It asked for more memory than it may have.
    MEMORY = "memory"
    #: It started more processes than it may have.
    PROCESSES = "processes"
    #: A signal ended its process.
    CRASHED = "crashed"
    #: Its process ended by itself before it answered.
    EXITED_EARLY = "exited_early"
    #: The answer, or the printed text, is too large.
    OUTPUT_LIMIT = "output_limit"
    #: What came back is not one answer to the input that was sent.
    PROTOCOL_ERROR = "protocol_error"
    #: Its result is better than the task declares possible.
    QUARANTINED = "quarantined"
    #: The sandbox failed, not the candidate.
    SANDBOX_ERROR = "sandbox_error"


@dataclass(frozen=True)
class Reply:
    """The answer to one input.

    Attributes:
        status: ``OK`` if ``output`` holds an answer.
        output: Plain data, None unless the status is ``OK``.
        detail: One line on what went wrong, safe to print.
        wall_s: Seconds from sending the input to having the whole answer.
        digest: Digest of the bytes of the answer, to compare two runs.
    """

    status: Status
    output: Any
    detail: str
    wall_s: float
    digest: str = ""


@dataclass(frozen=True)
class Usage:
    """What a candidate used, all inputs together.

    Attributes:
        cpu_s: CPU seconds, user and system.
        max_rss_kb: Peak resident memory, KiB; what the worker preloaded counts.
        stderr_tail: End of what it printed (both streams), safe to print.
        worker: Index of the worker that ran it.
    """

    cpu_s: float
    max_rss_kb: int
    stderr_tail: str
    worker: int
