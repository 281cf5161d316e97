"""What proposes edits: the contract between the campaign and any policy, and the scripted one.

A policy is shown an :class:`Ask` and answers with completions. It never sees the archive, runs no
program and judges nothing. Policies with a model live in :mod:`evolve.learning`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from evolve import mutate
from evolve.canonical import View, canonical_view
from evolve.edits import EditForm
from evolve.errors import ConfigError
from evolve.files import files_of, is_python
from evolve.prompts import Shown, numbered
from evolve.seeding import rng_for


@dataclass(frozen=True)
class Ask:
    """One prompt of a round.

    Attributes:
        view: The parent as the policy sees it; line numbers in answers refer to it.
        text: The prompt.
        tokens: The prompt's token ids, empty for a policy without a tokenizer.
        inspirations: Sources of programs from other cells.
        key: Where the prompt stands in the run, for the policy's random streams:
            (seed, round, slot).
    """

    view: View
    text: str
    tokens: tuple[int, ...]
    inspirations: tuple[str, ...]
    key: tuple[int, int, int]


@dataclass(frozen=True)
class Completion:
    """One completion as text.

    Attributes:
        text: The completion.
        tokens: Its token ids, without the prompt; empty for a policy without a tokenizer.
        logprobs: Log-probability of each token under the policy that sampled it.
        offsets: Character at which each token ends, so that ``offsets[i]`` grows with i.
        operators: For scripted policies, what was done in each answer.
    """

    text: str
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    offsets: tuple[int, ...] = ()
    operators: tuple[str, ...] = ()


class StoppedError(Exception):
    """A policy that waits for something was told that the run is to end."""


class Policy(Protocol):
    """A mutation operator.

    ``sample`` must depend on the asks, their keys and the policy version alone: equal calls give
    equal completions, in whatever batches they come.
    """

    #: The form in which it writes edits.
    form: EditForm
    #: The version that samples now; 0 is the initial policy.
    version: int

    def view(self, source: str) -> View:
        """Return a program as this policy is shown it."""

    def render(self, shown: Shown) -> tuple[str, tuple[int, ...]]:
        """Return the prompt and its token ids."""

    def sample(
        self, asks: Sequence[Ask], rollouts: int, answers: int
    ) -> Iterator[list[Completion]]:
        """Yield ``rollouts`` completions for each ask, in order, as they become ready."""


@dataclass
class ScriptedPolicy:
    """``mutate``: the scripted AST mutator, without a model. The honest baseline."""

    form: EditForm = "line"
    version: int = 0

    def view(self, source: str) -> View:
        """Return the canonical view, which is also what the pocket model sees."""
        return canonical_view(source)

    def render(self, shown: Shown) -> tuple[str, tuple[int, ...]]:
        """Return the numbered lines; nothing reads them but a person."""
        return numbered(shown.view), ()

    def sample(
        self, asks: Sequence[Ask], rollouts: int, answers: int
    ) -> Iterator[list[Completion]]:
        """Yield the mutator's completions; no draw depends on another prompt's."""
        for ask in asks:
            completions = []
            for repeat in range(rollouts):
                rng = rng_for(ask.key[0], "mutate", *ask.key[1:], repeat)
                text, operators = mutate.propose_with_operators(
                    ask.view, rng, answers, ask.inspirations
                )
                completions.append(Completion(text, operators=operators))
            yield completions


def check_name(name: str) -> None:
    """Refuse a policy name that nothing answers to.

    Raises:
        ConfigError: One line with the names that are allowed.
    """
    if name not in ("mutate", "pocket", "smollm2") and not name.startswith(("hf:", "openai:")):
        raise ConfigError(
            f"policy {name!r}: allowed are mutate, pocket, smollm2, hf:NAME_OR_PATH and "
            "openai:MODEL"
        )


def check_language(name: str, source: str) -> None:
    """Refuse a policy that cannot read the language of a program.

    Raises:
        ConfigError: One line with those that can.
    """
    if name == "pocket" and not is_python(source):
        files = ", ".join(file.name for file in files_of(source))
        raise ConfigError(
            f"policy 'pocket' edits Python alone, the program is {files}: allowed are mutate (by "
            "numbers, operators and lines), smollm2, hf:NAME_OR_PATH and openai:MODEL"
        )
