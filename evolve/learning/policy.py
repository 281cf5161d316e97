"""A causal language model in this process as a policy: views, prompts, samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evolve.canonical import View
from evolve.edits import EditForm
from evolve.errors import PolicyError
from evolve.policy import Ask, Completion
from evolve.prompts import Shown
from evolve.seeding import seed_for
from vpo.sampling import generate
from vpo.spans import token_ends


@dataclass
class ModelPolicy:
    """A causal language model in this process that writes edits."""

    form: EditForm
    model: Any
    tokenizer: Any
    render_text: Callable[[Shown], str]
    make_view: Callable[[str], View]
    temperature: float
    max_new_tokens: int
    max_prompt_tokens: int
    version: int = 0

    def view(self, source: str) -> View:
        """Return a program as this model is shown it."""
        return self.make_view(source)

    def render(self, shown: Shown) -> tuple[str, tuple[int, ...]]:
        """Return the prompt and its token ids.

        Raises:
            PolicyError: If the prompt leaves no room for a completion.
        """
        text = self.render_text(shown)
        tokens = tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        if len(tokens) > self.max_prompt_tokens:
            raise PolicyError(
                f"a prompt of {len(tokens)} tokens and {self.max_new_tokens} new ones do not fit "
                f"into the model's context of {self.max_prompt_tokens + self.max_new_tokens}; "
                f"lower policy.max_new_tokens or shorten the evolve block"
            )
        return text, tokens

    def sample(
        self, asks: Sequence[Ask], rollouts: int, answers: int
    ) -> Iterator[list[Completion]]:
        """Yield the completions of each ask; every one has a random stream of its own."""
        del answers  # the prompt asks for them
        samples = generate(
            self.model,
            [ask.tokens for ask in asks],
            rollouts,
            max_new_tokens=self.max_new_tokens,
            eos_id=self.tokenizer.eos_token_id,
            seeds=[seed_for(ask.key[0], "sample", *ask.key[1:]) for ask in asks],
            temperature=self.temperature,
        )
        for group in samples:
            yield [self._completion(sample.ids, sample.logprobs) for sample in group]

    def _completion(self, ids: tuple[int, ...], logprobs: Any) -> Completion:
        text = self._decode(list(ids))
        return Completion(
            text=text,
            tokens=ids,
            logprobs=tuple(logprobs.tolist()),
            offsets=tuple(token_ends(ids, text, self._decode)),
        )

    def _decode(self, ids: list[int]) -> str:
        text: str = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text
