"""The rows of a run: what is known of a prompt, a rollout, a candidate, a verdict, a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Fate of a candidate that goes to the sandbox; any other says why it does not.
EVALUATE = "evaluate"
#: The same program was evaluated earlier in the run (``twin`` names it).
DUPLICATE = "duplicate"
#: Verdict on a candidate on which the task's judge raised an error of its own.
JUDGE_ERROR = "judge_error"
#: The budget of the run was used up before its turn.
OVER_BUDGET = "over_budget"


@dataclass(frozen=True)
class PromptRecord:
    """One prompt: a parent, and how it was chosen.

    ``weights`` is the drawn scalarisation (k,), ``tokens`` the prompt as the model saw it (empty
    for a policy without a tokenizer).
    """

    id: int
    round: int
    slot: int
    island: int
    cell: int
    parent: int
    inspirations: tuple[int, ...]
    arm: str
    probability: float
    weights: tuple[float, ...]
    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class RolloutRecord:
    """One completion; ``logprobs`` are those of the behaviour policy, one a token."""

    id: int
    prompt: int
    repeat: int
    version: int
    completion: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Candidate:
    """One answer of a rollout, applied to the parent; id 0 is the starting program.

    ``tokens`` is the answer's half-open token span in the completion, ``source`` None when the
    edit gave no program.
    """

    id: int
    rollout: int | None
    answer: int
    tokens: tuple[int, int]
    parent: int | None
    fate: str
    detail: str
    twin: int | None
    source: str | None
    fingerprint: str | None
    operator: str


@dataclass(frozen=True)
class EvaluationRecord:
    """The verdict on a candidate; ``rewards`` (k,) in [0, 1] is None unless it is valid."""

    candidate: int
    status: str
    stage: str
    rewards: tuple[float, ...] | None
    raw: Mapping[str, float]
    descriptors: tuple[float, ...] | None
    feedback: str
    wall_s: float
    cpu_s: float
    max_rss_kb: int


@dataclass(frozen=True)
class AddRecord:
    """What an island's archive did with a program; ``value`` is the mean gain over the bank."""

    round: int
    island: int
    candidate: int
    cell: int
    status: str
    value: float


@dataclass(frozen=True)
class ResponseRecord:
    """What a server answered to one request, with what that cost.

    ``first`` is the number of the rollout that its first choice became, ``request`` the digest of
    what was asked, ``body`` the answer as JSON; token counts are None where the server gave none.
    """

    round: int
    slot: int
    first: int
    request: str
    body: str
    prompt_tokens: int | None
    completion_tokens: int | None
    cost: float


@dataclass(frozen=True)
class Usage:
    """What the answers of a server used; ``uncounted`` of them came without token counts."""

    responses: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    uncounted: int

    @property
    def tokens(self) -> int:
        """Tokens of prompts and completions together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class VersionRecord:
    """A policy version; ``active`` is False when it was dropped or rolled back."""

    version: int
    round: int
    parent: int
    active: bool
    folder: str
    stats: Mapping[str, Any]
