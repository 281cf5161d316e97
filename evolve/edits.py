"""From the text of a completion to programs: read the answers, then apply each to the parent.

A completion is whatever a model wrote. Nothing in it is executed, and what cannot be read or
applied is counted, never raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from evolve.canonical import View, to_source
from evolve.errors import EvolveError
from evolve.files import files_of, place_of
from evolve.program import MAX_SOURCE_BYTES, Checked, check, has_marker, syntax_place, too_large
from evolve.reading import (
    CLOSE_TAG,
    READERS,
    Change,
    Edit,
    EditForm,
    Hunk,
    NewBlocks,
    pieces,
    trimmed,
)

__all__ = [
    "MAX_COMPLETION_CHARS",
    "Answer",
    "Applied",
    "EditForm",
    "apply_answer",
    "parse_completion",
]

#: Characters of a completion that are read; what follows is as if it had not been written.
MAX_COMPLETION_CHARS = 4 * MAX_SOURCE_BYTES


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
    read = READERS[form]
    answers: list[Answer] = []
    seen: set[Edit] = set()
    for start, body, end in pieces(clean, form)[:m]:
        edit = read(clean[body:end])
        fault = None
        if edit is None:
            content = CLOSE_TAG.sub("", clean[body:end])
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
    if any("EVOLVE-" in line for block in blocks for line in block) and any(
        has_marker(block) for block in blocks
    ):
        return Applied(None, "outside_block", "a block marker or the head of a file in a block")
    source = to_source(view, blocks)
    if too_large(source):
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
    own = [file for file in files_of(source) if file.name == error.filename]
    lines = (own[0].text if own else source).split("\n")
    number = error.lineno or 0
    line = lines[number - 1].strip()[:80] if 0 < number <= len(lines) else ""
    place = syntax_place(error) if own else ""
    return f"{place}{error.msg}: {line}" if line else f"{place}{error.msg}"


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
        search, replace = trimmed(hunk.search), hunk.replace
        if not search:
            raise _Fault("no_match", "an empty SEARCH")
        if has_marker(search):
            raise _Fault("outside_block", "SEARCH holds a block marker")
        for block in blocks:
            found = _find(block, search)
            if found is not None:
                start, shift = found
                block[start : start + len(search)] = _shifted(trimmed(replace), shift)
                break
        else:
            outside = _find([line.rstrip() for line in view.source.split("\n")], search)
            said = f"SEARCH not found in a block: {search[0].strip()[:80]}"
            if outside is None:
                raise _Fault("no_match", said)
            place = f" ({place_of(view.source, outside[0])})" if files_of(view.source) else ""
            raise _Fault("outside_block", said + place)
    return blocks


def _find(lines: Sequence[str], search: Sequence[str]) -> tuple[int, int] | None:
    """Return where ``search`` stands and by how many columns it is deeper there.

    Exact lines first; then the same lines under another indentation; then lines that differ in
    blanks alone.
    """
    for key in (str, str.strip, _without_blanks):
        # As one text, since the search for a text is linear however often its first line occurs.
        given = "\n" + "\n".join(map(key, lines)) + "\n"
        position = given.find("\n" + "\n".join(map(key, search)) + "\n")
        if position >= 0:
            start = given.count("\n", 0, position)
            return start, _depth(lines[start]) - _depth(search[0])
    return None


def _without_blanks(line: str) -> str:
    return "".join(line.split())


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _shifted(lines: Sequence[str], shift: int) -> list[str]:
    if shift >= 0:
        return [" " * shift + line if line else line for line in lines]
    return [line[min(-shift, _depth(line)) :] for line in lines]
