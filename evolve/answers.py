"""From a completion to candidates: read the answers, apply them, keep what is worth running.

Runs nothing and judges nothing; every answer that goes no further says why in its fate.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from evolve.canonical import View
from evolve.edits import EditForm, apply_answer, parse_completion
from evolve.policy import Completion
from evolve.records import DUPLICATE, EVALUATE, OVER_BUDGET, Candidate
from evolve.state import SearchState


def candidates_of(
    completion: Completion,
    view: View,
    form: EditForm,
    answers: int,
    *,
    rollout: int,
    parent: int,
    first_id: int,
    state: SearchState,
    budget: int,
) -> list[Candidate]:
    """Return a candidate for every answer that could be read, in order.

    Args:
        completion: What the policy wrote.
        view: The parent as the policy was shown it.
        form: The form its edits are written in.
        answers: Number of answers that count; later ones are dropped.
        rollout: Id of the rollout.
        parent: Id of the parent.
        first_id: Id of the first candidate.
        state: What is known; it takes note of each candidate.
        budget: Candidates that the run may send to the sandbox in all.
    """
    found: list[Candidate] = []
    for answer in parse_completion(completion.text, form, answers):
        source, print_, fate, detail, twin = None, None, answer.fault, "", None
        if fate is None:
            applied = apply_answer(view, answer)
            source, print_ = applied.source, applied.fingerprint
            fate, detail = applied.fault, applied.detail
        if fate is None and print_ is not None:
            twin = state.known.get(print_)
            if twin is not None:
                fate = DUPLICATE
            else:
                fate = EVALUATE if state.submitted < budget else OVER_BUDGET
        operators = completion.operators
        candidate = Candidate(
            id=first_id + len(found),
            rollout=rollout,
            answer=answer.index,
            tokens=_token_span(completion.offsets, answer.span),
            parent=parent,
            fate=fate or "unreadable",
            detail=detail,
            twin=twin,
            source=source if fate == EVALUATE else None,
            fingerprint=print_,
            operator=operators[answer.index] if answer.index < len(operators) else form,
        )
        state.note_candidate(candidate)
        found.append(candidate)
    return found


def _token_span(offsets: Sequence[int], span: tuple[int, int]) -> tuple[int, int]:
    """Return the half-open range of tokens that hold a range of characters."""
    if not offsets or span[0] >= span[1]:
        return 0, 0
    first = bisect_right(offsets, span[0])
    return first, min(len(offsets), bisect_left(offsets, span[1]) + 1)
