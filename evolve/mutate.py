"""The scripted mutator: a policy without a model, and the honest baseline for every claim.

It reads what a model would read, the shown lines, and writes what a model would write, a completion
in the line form. It knows scopes and guesses kinds, so that most of its children run; it knows
nothing of rewards. Of a program in another language it knows lines, numbers and operators.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np

from evolve.canonical import View
from evolve.files import is_python
from evolve.mutation.expressions import EXPRESSION, applicable
from evolve.mutation.pieces import Draws, Known
from evolve.mutation.sites import Site, Statement
from evolve.mutation.statements import (
    STATEMENT,
    Hunk,
    can_delete,
    can_duplicate,
    can_swap,
    rewritten,
)
from evolve.mutation.survey import donors_of, sites_of
from evolve.mutation.text import propose_text

#: How often each operator is tried, among those that a program leaves room for.
WEIGHTS: Mapping[str, float] = {
    "constant": 0.22,
    "arithmetic": 0.08,
    "comparison": 0.05,
    "operands": 0.03,
    "drop": 0.07,
    "wrap": 0.11,
    "splice": 0.08,
    "inspire": 0.08,
    "name": 0.06,
    "combine": 0.08,
    "choose": 0.04,
    "condition": 0.03,
    "insert": 0.12,
    "delete": 0.04,
    "guard": 0.03,
    "duplicate": 0.02,
    "swap": 0.02,
}
#: Chance that an answer goes on to another change after each.
_AGAIN = 0.2
_MAX_CHANGES = 3
_TRIES = 40
_MAX_LINE = 160


def propose(
    view: View, rng: np.random.Generator, n_answers: int, inspirations: Sequence[str] = ()
) -> str:
    """Return a completion in the line form with ``n_answers`` different edits of a program.

    There are fewer only where the program leaves no room for so many. Every draw comes from
    ``rng``. Not for two threads at once: what is known of a program is shared between calls.

    Args:
        view: The program as shown, raw or canonical.
        rng: Generator; equal states give equal completions.
        n_answers: Number of answers wanted.
        inspirations: Sources of other programs whose expressions may be used.
    """
    return propose_with_operators(view, rng, n_answers, inspirations)[0]


def propose_with_operators(
    view: View, rng: np.random.Generator, n_answers: int, inspirations: Sequence[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """Return the same as :func:`propose`, and what was done in each answer, joined by ``+``."""
    if not is_python(view.source):
        return propose_text(view.blocks(), Draws(rng), n_answers, _TRIES)
    program = sites_of(view)
    pieces = [donors for donors in map(donors_of, inspirations) if donors]
    known = Known(program, pieces)
    menu, names, limits = _menu(view, bool(pieces))
    draws = Draws(rng)
    parts: list[str] = []
    operators: list[str] = []
    seen: set[str] = set()
    for _ in range(_TRIES * n_answers if names else 0):
        if len(operators) == n_answers:
            break
        hunks: list[Hunk] = []
        done: list[str] = []
        for _ in range(_MAX_CHANGES):
            operator = names[bisect_right(limits, draws.unit() * limits[-1])]
            hunk = _change(operator, draws.pick(menu[operator]), draws, known)
            if hunk is not None and not any(_touch(hunk, other) for other in hunks):
                hunks.append(hunk)
                done.append(operator)
            if draws.unit() >= _AGAIN:
                break
        text = _written(sorted(hunks), view.lines)
        if text and text not in seen:
            seen.add(text)
            operators.append("+".join(done))
            parts.append(f"@{len(operators)}\n{text}")
    return "\n".join(parts), tuple(operators)


@lru_cache(maxsize=512)
def _menu(
    view: View, inspired: bool
) -> tuple[dict[str, list[Site | Statement]], list[str], list[float]]:
    """Return operator -> where it may work, the operators and their cumulative weights."""
    program = sites_of(view)
    menu: dict[str, list[Site | Statement]] = {}
    for site in program.sites:
        for operator in applicable(site):
            menu.setdefault(operator, []).append(site)
    for statement in program.statements:
        if statement.in_function and not statement.chained:
            menu.setdefault("insert", []).append(statement)
        if can_delete(statement):
            menu.setdefault("delete", []).append(statement)
            if statement.first == statement.last:
                menu.setdefault("guard", []).append(statement)
        if can_duplicate(statement):
            menu.setdefault("duplicate", []).append(statement)
        if can_swap(statement):
            menu.setdefault("swap", []).append(statement)
    if not inspired:
        menu.pop("inspire", None)
    names = [name for name in WEIGHTS if name in menu]
    return menu, names, list(accumulate(WEIGHTS[name] for name in names))


def _change(operator: str, place: Site | Statement, draws: Draws, known: Known) -> Hunk | None:
    if isinstance(place, Statement):
        return STATEMENT[operator](place, draws, known)
    old = place.node
    new = EXPRESSION[operator](place, draws, known)
    if new is None or new is old:
        return None
    statement = place.statement
    before = rewritten(statement)
    try:
        place.put(new)
        after = rewritten(statement)
    finally:
        place.put(old)
    if after == before or max(map(len, after)) > _MAX_LINE:
        return None
    return Hunk(statement.first, statement.head, tuple(after))


def _touch(one: Hunk, other: Hunk) -> bool:
    return one.first <= other.last + 1 and other.first <= one.last + 1


def _written(hunks: Sequence[Hunk], lines: Sequence[str]) -> str:
    """Return the changes in the line form; nothing if they change nothing."""
    changes: list[str] = []
    for first, last, new in hunks:
        start, end, fresh = first, last + 1, list(new)
        while fresh and start < end and fresh[0] == lines[start]:
            start += 1
            fresh.pop(0)
        while fresh and start < end and fresh[-1] == lines[end - 1]:
            end -= 1
            fresh.pop()
        shared = min(end - start, len(fresh))
        changes += [f"{start + i + 1}={fresh[i]}" for i in range(shared)]
        changes += [f"{number + 1}-" for number in range(start + shared, end)]
        at = start + shared if shared else start
        changes += [f"{at}+{line}" for line in fresh[shared:]]
    return "\n".join(changes)
