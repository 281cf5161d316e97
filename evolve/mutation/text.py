"""Scripted edits of programs in a language that nobody here parses.

Knows lines, numbers and the operators that most languages share; knows neither scopes nor kinds,
so that many of its children do not compile. It is there so that a program in any language can be
searched without a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from evolve.mutation.pieces import FACTORS, Draws

#: How often each operator is tried.
WEIGHTS = {"number": 0.45, "operator": 0.25, "delete": 0.1, "duplicate": 0.08, "swap": 0.12}

#: A numeric literal that is no part of a name and has no suffix but a float's.
_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?=[fFlLuU]{0,3}(?![\w.]))")
#: Operators that may stand for each other; longer ones first.
_FAMILIES = (("<=", ">=", "==", "!=", "<", ">"), ("+=", "-=", "*="), ("&&", "||"), ("+", "-", "*"))
_OPERATOR = re.compile(
    r"(?<= )(<=|>=|==|!=|<|>|\+=|-=|\*=|&&|\|\||\+|-|\*)(?= )"  # between blanks: no ->, no *p
)
#: Lines that hold brackets alone, or open what another closes, stay where they are.
_BRACKETS = re.compile(r"[{}()\[\]]")


def propose_text(
    blocks: Sequence[Sequence[str]], draws: Draws, n_answers: int, tries: int
) -> tuple[str, tuple[str, ...]]:
    """Return a completion in the line form, and what was done in each answer.

    Args:
        blocks: The shown lines of each evolve block.
        draws: Where every draw comes from.
        n_answers: Number of different answers wanted; fewer where there is no room for so many.
        tries: Edits tried for each.
    """
    lines = [line for block in blocks for line in block]
    ends = {sum(map(len, blocks[: i + 1])) for i in range(len(blocks))}
    edits: list[str] = []
    done: list[str] = []
    for _ in range(tries * n_answers):
        if len(done) == n_answers or not lines:
            break
        name = _drawn(draws)
        edit = _OPERATORS[name](lines, ends, draws)
        if edit is not None and edit not in edits:
            done.append(name)
            edits.append(edit)
    return "\n".join(f"@{i}\n{edit}" for i, edit in enumerate(edits, start=1)), tuple(done)


def _drawn(draws: Draws) -> str:
    left = draws.unit() * sum(WEIGHTS.values())
    for name, weight in WEIGHTS.items():
        left -= weight
        if left < 0:
            return name
    return next(iter(WEIGHTS))


def _number(lines: Sequence[str], ends: set[int], draws: Draws) -> str | None:
    del ends
    return _replaced(lines, _NUMBER, _other_number, draws)


def _operator(lines: Sequence[str], ends: set[int], draws: Draws) -> str | None:
    del ends
    return _replaced(lines, _OPERATOR, _other_operator, draws)


def _replaced(
    lines: Sequence[str],
    pattern: re.Pattern[str],
    other: Callable[[str, Draws], str],
    draws: Draws,
) -> str | None:
    places = [
        (number, match) for number, line in enumerate(lines) for match in pattern.finditer(line)
    ]
    if not places:
        return None
    number, match = draws.pick(places)
    new = other(match[0], draws)
    if new == match[0]:
        return None
    line = lines[number]
    return f"{number + 1}={line[: match.start()]}{new}{line[match.end() :]}"


def _other_number(text: str, draws: Draws) -> str:
    if text.isdigit():
        value = int(text)
        if value < 10 or draws.unit() < 0.5:
            return str(max(0, value + draws.pick((-2, -1, 1, 2))))
        return str(round(value * draws.pick(FACTORS)))
    old = float(text)
    new = f"{old * draws.pick(FACTORS) if old else draws.pick((0.01, 0.1, 0.5, 1.0)):.4g}"
    return new if "." in new or "e" in new else f"{new}.0"


def _other_operator(text: str, draws: Draws) -> str:
    return draws.pick(next(family for family in _FAMILIES if text in family))


def _delete(lines: Sequence[str], ends: set[int], draws: Draws) -> str | None:
    del ends
    number = _movable(lines, draws)
    return None if number is None else f"{number + 1}-"


def _duplicate(lines: Sequence[str], ends: set[int], draws: Draws) -> str | None:
    del ends
    number = _movable(lines, draws)
    return None if number is None else f"{number + 1}+{lines[number]}"


def _swap(lines: Sequence[str], ends: set[int], draws: Draws) -> str | None:
    number = _movable(lines, draws)
    # Not over the end of a block, into the next one or the next file.
    if number is None or number + 1 in ends or not _moves(lines[number + 1]):
        return None
    if lines[number] == lines[number + 1]:
        return None
    return f"{number + 1}={lines[number + 1]}\n{number + 2}={lines[number]}"


def _movable(lines: Sequence[str], draws: Draws) -> int | None:
    places = [number for number, line in enumerate(lines) if _moves(line)]
    return draws.pick(places) if places else None


def _moves(line: str) -> bool:
    """Return whether a line is a statement that stands alone, as far as brackets tell."""
    code = line.strip()
    opened = {"{": "}", "(": ")", "[": "]"}
    waiting: list[str] = []
    for bracket in _BRACKETS.findall(code):
        if bracket in opened:
            waiting.append(opened[bracket])
        elif not waiting or waiting.pop() != bracket:
            return False
    return bool(code) and not waiting and not code.startswith(("#", "//", "/*", "*"))


_OPERATORS: dict[str, Callable[[Sequence[str], set[int], Draws], str | None]] = {
    "number": _number,
    "operator": _operator,
    "delete": _delete,
    "duplicate": _duplicate,
    "swap": _swap,
}
