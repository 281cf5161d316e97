"""A program of several files, or in another language than Python, as one text, and back.

A program is one text wherever it is kept, compared, counted or written down. The text of each of
its files then begins with a line ``# EVOLVE-FILE name``, whatever the language; a text that does
not begin so is the one Python file ``initial.py``. It is taken apart where it goes into the
sandbox and where it is shown or edited. Nothing here reads or writes files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

#: Names that a file of a program may have; folders are not provided for.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")

_START = "# EVOLVE-FILE "
_HEADER = re.compile(r"^# EVOLVE-FILE ([A-Za-z0-9_][A-Za-z0-9_.-]*)(?:\n|\Z)", re.MULTILINE)


@dataclass(frozen=True)
class File:
    """One file of a program.

    Attributes:
        name: Its name.
        text: Its content.
        first: Index of its first line in the text of the program, 0-based.
    """

    name: str
    text: str
    first: int


def join_files(files: Sequence[tuple[str, str]]) -> str:
    """Return (name, content) pairs as the one text of a program.

    A content that does not end with its line gets a line end.

    Raises:
        ValueError: If a content holds a line that would be read as the head of a file.
    """
    for name, text in files:
        if _HEADER.search(text):
            raise ValueError(f"{name}: a line begins with {_START.rstrip()!r}, which marks files")
    return "".join(
        f"{_START}{name}\n{text if text.endswith(chr(10)) else text + chr(10)}"
        for name, text in files
    )


@lru_cache(maxsize=512)
def files_of(source: str) -> tuple[File, ...]:
    """Return the files of a program in order; none for a text that is one Python file."""
    if not source.startswith(_START):
        return ()
    heads = list(_HEADER.finditer(source))
    ends = [head.start() for head in heads[1:]] + [len(source)]
    return tuple(
        File(head[1], source[head.end() : end], source.count("\n", 0, head.end()))
        for head, end in zip(heads, ends, strict=True)
    )


def is_python(source: str) -> bool:
    """Return whether all of a program is Python."""
    return all(file.name.endswith(".py") for file in files_of(source))


def is_head(line: str) -> bool:
    """Return whether a line would be read as the head of a file."""
    return line.startswith(_START) and _HEADER.match(line) is not None


def place_of(source: str, index: int) -> str:
    """Return where the line ``index`` (0-based) of a program stands, in words."""
    for file in reversed(files_of(source)):
        if index >= file.first:
            return f"{file.name} line {index - file.first + 1}"
    return f"line {index + 1}"
