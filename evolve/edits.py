"""From the text of a completion to programs: read the answers, then apply each to the parent.

A completion is whatever a model wrote. Nothing in it is executed, every text gives a result in
time that grows with its length, and what cannot be read is counted, never raised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from evolve.canonical import View, to_source
from evolve.errors import EvolveError
from evolve.program import MAX_SOURCE_BYTES, Checked, check, has_marker

EditForm = Literal["line", "search_replace", "block"]

#: Characters of a completion that are read; what follows is as if it had not been written.
MAX_COMPLETION_CHARS = 4 * MAX_SOURCE_BYTES
#: Hunks of one answer that are read.
MAX_HUNKS = 64

_OPEN_LINE = re.compile(r"[ \t]*@[ \t]*\d{1,9}[ \t:.]*$")
_CHANGE = re.compile(r"[ \t]{0,8}(\d{1,9})[ \t]?([=+-])(.*)$")
_OPEN_TAG = re.compile(r"<[ \t]*answer\b[^<>\n]{0,40}>", re.IGNORECASE)
_CLOSE_TAG = re.compile(r"<[ \t]*/[ \t]*answer[^<>\n]{0,40}>", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_SEARCH = re.compile(r"[ \t]*<{5,9}[ \t]*(?:SEARCH|ORIGINAL)?[ \t]*$", re.IGNORECASE)
_DIVIDER = re.compile(r"[ \t]*={5,9}[ \t]*$")
_REPLACE = re.compile(r"[ \t]*>{5,9}[ \t]*(?:REPLACE|UPDATED)?[ \t]*$", re.IGNORECASE)
_MARKER_START = re.compile(r"[ \t]*#[ \t]*EVOLVE-BLOCK-START\b")


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


@dataclass(frozen=True)
class Answer:
    """One answer of a completion.

    Attributes:
        index: Position among the answers of the completion, from 0.
        text: What was written, tags included.
        span: Its characters in the completion, half open; ``completion[slice(*span)] == text``.
        edit: What it asks for; None if there is a fault.
        fault: ``"unreadable"``, ``"empty"``, ``"repeated"`` or None.
    """

    index: int
    text: str
    span: tuple[int, int]
    edit: Edit | None
    fault: str | None


@dataclass(frozen=True)
class Applied:
    """What came of an answer.

    Attributes:
        source: The program; None if there is a fault.
        fault: ``"no_match"``, ``"bad_line"``, ``"outside_block"``, ``"too_large"``, ``"syntax"``,
            ``"no_op"``, ``"undefined_name"``, or the fault of the answer; None if all is well.
        detail: The fault in words, for the next prompt.
        fingerprint: Of the program; None unless it could be parsed.
    """

    source: str | None
    fault: str | None
    detail: str = ""
    fingerprint: str | None = None


class _Fault(Exception):  # noqa: N818 - carries a verdict inside this module
    def __init__(self, fault: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail


def parse_completion(text: str, form: EditForm, m: int) -> list[Answer]:
    """Return the first ``m`` answers of a completion, in order.

    The line form opens an answer by a line ``@i``; then ``N=code`` replaces shown line N,
    ``N+code`` inserts after it (0 is the top; repeated inserts keep their order) and ``N-`` deletes
    it; of two changes to one line the later counts. The other forms put answer i between
    ``<answer i>`` and ``</answer>``: search/replace hunks, or a whole evolve block (with several
    blocks, each between its markers or in a fence of its own). The tags may be missing where there
    is one answer. Fences, prose and unclosed tags are tolerated.

    Spans cover each answer from its opening to the next one's, so they are disjoint and in order.

    Raises:
        EvolveError: If ``form`` is none of the three.
    """
    if form not in get_args(EditForm):
        raise EvolveError(f"edit form {form!r}: allowed are {', '.join(get_args(EditForm))}")
    # Same length, so that spans hold for what the model wrote.
    clean = text[:MAX_COMPLETION_CHARS].replace("\r\n", " \n").replace("\r", "\n")
    read = _READERS[form]
    answers: list[Answer] = []
    seen: set[Edit] = set()
    for start, body, end in _pieces(clean, form)[:m]:
        edit = read(clean[body:end])
        fault = None
        if edit is None:
            content = _CLOSE_TAG.sub("", clean[body:end])
            fault = "unreadable" if content.strip() else "empty"
        elif edit in seen:
            edit, fault = None, "repeated"
        else:
            seen.add(edit)
        answers.append(Answer(len(answers), text[start:end], (start, end), edit, fault))
    return answers


def apply_answer(view: View, answer: Answer) -> Applied:
    """Return the program that an answer makes of its parent, or why there is none.

    ``no_op`` means the parent's own fingerprint, ``undefined_name`` a name that the program loads,
    that nothing in it provides, and that the parent did not lack too.
    """
    if answer.edit is None:
        return Applied(None, answer.fault or "unreadable")
    try:
        edit = answer.edit
        if isinstance(edit, NewBlocks):
            blocks = _apply_blocks(view, edit)
        elif isinstance(edit[0], Change):
            blocks = _apply_changes(view, edit)
        else:
            blocks = _apply_hunks(view, edit)
    except _Fault as fault:
        return Applied(None, fault.fault, fault.detail)
    if any("EVOLVE-BLOCK" in line for block in blocks for line in block) and any(
        has_marker(block) for block in blocks
    ):
        return Applied(None, "outside_block", "a block marker inside a block")
    source = to_source(view, blocks)
    if len(source) > MAX_SOURCE_BYTES or len(source.encode(errors="replace")) > MAX_SOURCE_BYTES:
        return Applied(None, "too_large", f"more than {MAX_SOURCE_BYTES} bytes")
    try:
        checked = check(source)
    except SyntaxError as error:
        return Applied(None, "syntax", _where(error, source))
    parent = _parent(view.source)
    if parent is not None and checked.fingerprint == parent.fingerprint:
        return Applied(None, "no_op", "the same program", checked.fingerprint)
    missing = checked.undefined - (parent.undefined if parent else frozenset())
    if missing:
        names = ", ".join(sorted(missing)[:5])
        return Applied(None, "undefined_name", names, checked.fingerprint)
    return Applied(source, None, "", checked.fingerprint)


@lru_cache(maxsize=512)
def _parent(source: str) -> Checked | None:
    try:
        return check(source)
    except SyntaxError:
        return None


def _where(error: SyntaxError, source: str) -> str:
    lines = source.split("\n")
    number = error.lineno or 0
    line = lines[number - 1].strip()[:80] if 0 < number <= len(lines) else ""
    return f"{error.msg}: {line}" if line else str(error.msg)


# Reading


def _pieces(text: str, form: EditForm) -> list[tuple[int, int, int]]:
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
        if _SEARCH.match(line):
            if state == "replace":
                hunks.append(Hunk(tuple(search), tuple(replace)))
            state, search, replace = "search", [], []
        elif state == "search" and _DIVIDER.match(line):
            state = "replace"
        elif state == "replace" and _REPLACE.match(line):
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
    trimmed = tuple(tuple(_trim(block)) for block in blocks)
    return NewBlocks(trimmed) if any(trimmed) else None


def _content(text: str) -> str:
    closed = _CLOSE_TAG.search(text)
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


def _trim(lines: Sequence[str]) -> Sequence[str]:
    first, last = 0, len(lines)
    while first < last and not lines[first]:
        first += 1
    while first < last and not lines[last - 1]:
        last -= 1
    return lines[first:last]


_READERS: dict[EditForm, Callable[[str], Edit | None]] = {
    "line": _read_changes,
    "search_replace": _read_hunks,
    "block": _read_blocks,
}


# Applying


def _apply_changes(view: View, changes: Sequence[Change]) -> list[list[str]]:
    total = len(view.lines)
    replaced: dict[int, str | None] = {}
    inserted: dict[int, list[str]] = {}
    for line, sign, text in changes:
        if line > total or (line == 0 and sign != "+"):
            raise _Fault("bad_line", f"no line {line}; the lines are 1 to {total}")
        if sign == "+":
            inserted.setdefault(line, []).append(text)
        else:
            replaced[line] = text if sign == "=" else None
    result: list[list[str]] = []
    start = 0
    for count in view.counts:
        block = list(inserted.get(0, ())) if not result else []
        for line in range(start + 1, start + count + 1):
            code = replaced.get(line, view.lines[line - 1])
            if code is not None:
                block.append(code)
            block += inserted.get(line, ())
        result.append(block)
        start += count
    return result


def _apply_blocks(view: View, edit: NewBlocks) -> list[list[str]]:
    if len(edit.blocks) != len(view.counts):
        raise _Fault("no_match", f"{len(edit.blocks)} blocks for {len(view.counts)}")
    return [list(block) for block in edit.blocks]


def _apply_hunks(view: View, hunks: Sequence[Hunk]) -> list[list[str]]:
    blocks = [[line.rstrip() for line in block] for block in view.blocks()]
    for hunk in hunks:
        search, replace = _trim(hunk.search), hunk.replace
        if not search:
            raise _Fault("no_match", "an empty SEARCH")
        if has_marker(search):
            raise _Fault("outside_block", "SEARCH holds a block marker")
        for block in blocks:
            found = _find(block, search)
            if found is not None:
                start, shift = found
                block[start : start + len(search)] = _shifted(_trim(replace), shift)
                break
        else:
            outside = _find([line.rstrip() for line in view.source.split("\n")], search)
            fault = "no_match" if outside is None else "outside_block"
            raise _Fault(fault, f"SEARCH not found in a block: {search[0].strip()[:80]}")
    return blocks


def _find(lines: Sequence[str], search: Sequence[str]) -> tuple[int, int] | None:
    """Return where ``search`` stands and by how many columns it is deeper there.

    Exact lines first; then the same lines under another indentation; then lines that differ in
    blanks alone.
    """
    first, n = search[0], len(search)
    for start in range(len(lines) - n + 1):
        if lines[start] == first and list(lines[start : start + n]) == list(search):
            return start, 0
    for key in (str.strip, _without_blanks):
        wanted = [key(line) for line in search]
        given = [key(line) for line in lines]
        for start in range(len(lines) - n + 1):
            if given[start] == wanted[0] and given[start : start + n] == wanted:
                return start, _depth(lines[start]) - _depth(first)
    return None


def _without_blanks(line: str) -> str:
    return "".join(line.split())


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _shifted(lines: Sequence[str], shift: int) -> list[str]:
    if shift >= 0:
        return [" " * shift + line if line else line for line in lines]
    return [line[min(-shift, _depth(line)) :] for line in lines]
