"""Finds the answers in what a model wrote, and reads each as an edit.

Every text gives a result, in time that grows with its length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from evolve.program import has_marker

EditForm = Literal["line", "search_replace", "block"]

#: Hunks of one answer that are read.
MAX_HUNKS = 64

_OPEN_LINE = re.compile(r"[ \t]*@[ \t]*\d{1,9}[ \t:.]*$")
_CHANGE = re.compile(r"[ \t]{0,8}(\d{1,9})[ \t]?([=+-])(.*)$")
_OPEN_TAG = re.compile(r"<[ \t]*answer\b[^<>\n]{0,40}>", re.IGNORECASE)
CLOSE_TAG = re.compile(r"<[ \t]*/[ \t]*answer[^<>\n]{0,40}>", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
# These match stripped lines: two runs of blanks in one pattern would cost their product.
_SEARCH = re.compile(r"<{5,9}[ \t]*(?:SEARCH|ORIGINAL)?$", re.IGNORECASE)
_DIVIDER = re.compile(r"={5,9}$")
_REPLACE = re.compile(r">{5,9}[ \t]*(?:REPLACE|UPDATED)?$", re.IGNORECASE)
_MARKER_START = re.compile(r"[ \t]*[^\w\s]{1,4}[ \t]*EVOLVE-BLOCK-START\b")


class Change(NamedTuple):
    """One change of the line form; ``line`` is the shown number, 0 for the top with ``+``."""

    line: int
    sign: Literal["=", "+", "-"]
    text: str


class Hunk(NamedTuple):
    """Lines to find and the lines to put in their place."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


class NewBlocks(NamedTuple):
    """New content for every evolve block."""

    blocks: tuple[tuple[str, ...], ...]


Edit = tuple[Change, ...] | tuple[Hunk, ...] | NewBlocks


def pieces(text: str, form: EditForm) -> list[tuple[int, int, int]]:
    """Return (start, start of the content, end) of each answer."""
    if form == "line":
        opens = []
        position = 0
        for line in text.split("\n"):
            if "@" in line[:12] and _OPEN_LINE.match(line):
                opens.append((position, position + len(line)))
            position += len(line) + 1
        first = opens[0][0] if opens else len(text)
        if any(_CHANGE.match(line) for line in text[:first].split("\n")):
            opens.insert(0, (0, 0))
    else:
        opens = [match.span() for match in _OPEN_TAG.finditer(text)]
    if not opens:
        return [(0, 0, len(text))] if text.strip() else []
    ends = [start for start, _ in opens[1:]] + [len(text)]
    return [(start, body, end) for (start, body), end in zip(opens, ends, strict=True)]


def _read_changes(text: str) -> tuple[Change, ...] | None:
    changes: list[Change] = []
    for line in text.split("\n"):
        match = _CHANGE.match(line)
        if match is not None:
            number, sign, code = int(match[1]), match[2], match[3].rstrip()
            if sign == "-":
                code = ""
            changes.append(Change(number, sign, code))  # type: ignore[arg-type]
        elif changes and line[:1] in (" ", "\t") and line.strip() and changes[-1].sign != "-":
            # The rest of a change that the model wrote over several lines.
            changes.append(Change(changes[-1].line, "+", line.rstrip()))
    return tuple(changes) or None


def _read_hunks(text: str) -> tuple[Hunk, ...] | None:
    text = _content(text)
    hunks: list[Hunk] = []
    search: list[str] = []
    replace: list[str] = []
    state = "outside"
    for line in text.split("\n"):
        if len(hunks) >= MAX_HUNKS:
            break
        mark = line.strip()
        if _SEARCH.match(mark):
            if state == "replace":
                hunks.append(Hunk(tuple(search), tuple(replace)))
            state, search, replace = "search", [], []
        elif state == "search" and _DIVIDER.match(mark):
            state = "replace"
        elif state == "replace" and _REPLACE.match(mark):
            hunks.append(Hunk(tuple(search), tuple(replace)))
            state = "outside"
        elif state == "search":
            search.append(line.rstrip())
        elif state == "replace":
            replace.append(line.rstrip())
    if state == "replace":  # never closed
        while replace and (not replace[-1] or _FENCE.match(replace[-1])):
            replace.pop()
        hunks.append(Hunk(tuple(search), tuple(replace)))
    return tuple(hunks) or None


def _read_blocks(text: str) -> NewBlocks | None:
    lines = [line.rstrip() for line in _content(text).split("\n")]
    fenced = _fenced(lines)
    marked = [block for part in fenced or [lines] for block in _marked(part)]
    blocks = marked or fenced or [lines]
    content = tuple(tuple(trimmed(block)) for block in blocks)
    return NewBlocks(content) if any(content) else None


def _content(text: str) -> str:
    closed = CLOSE_TAG.search(text)
    return text[: closed.start()] if closed else text


def _fenced(lines: Sequence[str]) -> list[list[str]]:
    """Return the content of each fence; the last may lack its end."""
    blocks: list[list[str]] = []
    inside = False
    for line in lines:
        if _FENCE.match(line):
            inside = not inside
            if inside:
                blocks.append([])
        elif inside:
            blocks[-1].append(line)
    return [block for block in blocks if any(block)]


def _marked(lines: Sequence[str]) -> list[list[str]]:
    """Return what stands between block markers; the last may lack its end."""
    blocks: list[list[str]] = []
    inside = False
    for line in lines:
        if has_marker((line,)):
            inside = _MARKER_START.match(line) is not None
            if inside:
                blocks.append([])
        elif inside:
            blocks[-1].append(line)
    return blocks


def trimmed(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines without empty ones at either end."""
    first, last = 0, len(lines)
    while first < last and not lines[first]:
        first += 1
    while first < last and not lines[last - 1]:
        last -= 1
    return lines[first:last]


READERS: dict[EditForm, Callable[[str], Edit | None]] = {
    "line": _read_changes,
    "search_replace": _read_hunks,
    "block": _read_blocks,
}
