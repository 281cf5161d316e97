"""The text of a program: its evolve blocks, its fingerprint and the names that it lacks.

Nothing here runs a program or knows where it came from. A program text may come from a model, so
its size is capped before anything parses it. A program of several files, or in another language
than Python, is one text too, see :mod:`evolve.files`; of another language no more is understood
than where its blocks are.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from textwrap import dedent

from evolve.errors import EvolveError
from evolve.facts import Facts, facts_of
from evolve.files import File, files_of, is_head, is_python

#: Larger texts are refused before any parse: 10 MB took the parser 36 s and 5.9 GB.
MAX_SOURCE_BYTES = 65536

_MARKER = re.compile(r"[ \t]*#[ \t]*EVOLVE-BLOCK-(START|END)\b")
# In other languages, after whatever sign opens a comment there.
_ANY_MARKER = re.compile(r"[ \t]*[^\w\s\"']{1,4}[ \t]*EVOLVE-BLOCK-(START|END)\b")
# A line that can open a statement of the module level. What is cut wrongly, inside a string for
# instance, does not parse alone and sends the whole text to the parser.
_STATEMENT = re.compile(r"^(?=[^\s#)\]}])(?!(?:else|elif|except|finally)\b)", re.MULTILINE)
# More statements than this, and one parse of the whole is cheaper.
_MAX_PARTS = 256
_PROVIDED = frozenset(dir(builtins)) | frozenset(
    [
        *("__name__", "__file__", "__doc__", "__builtins__", "__package__", "__spec__"),
        *("__loader__", "__annotations__", "__class__", "__module__", "__qualname__"),
    ]
)


class ProgramError(EvolveError):
    """A starting program is unusable: its evolve blocks, its size or its syntax."""


@dataclass(frozen=True)
class Block:
    """What stands between a start and an end marker.

    Attributes:
        first: Index of the first content line, 0-based.
        last: Index of the last content line; ``first - 1`` for an empty block.
        lines: The content lines, without line ends.
        file: Name of its file; empty in a program that is one Python file.
    """

    first: int
    last: int
    lines: tuple[str, ...]
    file: str = ""


@dataclass(frozen=True)
class Checked:
    """What a look at a program tells without running it.

    Attributes:
        fingerprint: See :func:`fingerprint`.
        undefined: See :func:`undefined_names`.
    """

    fingerprint: str
    undefined: frozenset[str]


@lru_cache(maxsize=512)
def split_blocks(source: str) -> tuple[Block, ...]:
    """Return the evolve blocks of a program in order.

    A block lies between a line ``# EVOLVE-BLOCK-START`` and a line ``# EVOLVE-BLOCK-END`` of one
    file, each with nothing before it but blanks; anything may follow on the same line. In a file
    that is not Python another sign may stand for ``#``.

    Raises:
        ProgramError: If there is no block, or a marker lacks its partner; the message names the
            line, counted from 1.
    """
    files = files_of(source) or (File("", source, 0),)
    blocks = tuple(block for file in files for block in _blocks_of(file))
    if not blocks:
        raise ProgramError(
            "no evolve block: mark what may change by the lines "
            "# EVOLVE-BLOCK-START and # EVOLVE-BLOCK-END"
        )
    return blocks


def _blocks_of(file: File) -> list[Block]:
    python = not file.name or file.name.endswith(".py")
    lines = file.text.split("\n")
    inside = _string_lines(file.text) if python else frozenset[int]()
    line_of = f"{file.name} line" if file.name else "line"
    pattern = _MARKER if python else _ANY_MARKER
    blocks, start = [], None
    for index, line in enumerate(lines):
        marker = pattern.match(line)
        if marker is None or index in inside:
            continue
        if marker[1] == "START":
            if start is not None:
                raise ProgramError(
                    f"{line_of} {index + 1}: EVOLVE-BLOCK-START inside the block of line {start}; "
                    "blocks do not nest"
                )
            start = index + 1
        elif start is None:
            raise ProgramError(f"{line_of} {index + 1}: EVOLVE-BLOCK-END without a start before it")
        else:
            content = tuple(lines[start:index])
            blocks.append(Block(file.first + start, file.first + index - 1, content, file.name))
            start = None
    if start is not None:
        raise ProgramError(
            f"{line_of} {start}: EVOLVE-BLOCK-START without an EVOLVE-BLOCK-END after it"
        )
    return blocks


def replace_blocks(source: str, blocks: Sequence[Sequence[str]]) -> str:
    """Return the program with the content of its evolve blocks replaced, in order.

    Raises:
        ProgramError: If the program has another number of blocks.
    """
    old = split_blocks(source)
    if len(old) != len(blocks):
        raise ProgramError(f"{len(blocks)} blocks for a program with {len(old)}")
    lines, kept, result = source.split("\n"), 0, list[str]()
    for block, content in zip(old, blocks, strict=True):
        result += lines[kept : block.first]
        result += content
        kept = block.last + 1
    return "\n".join(result + lines[kept:])


def has_marker(lines: Iterable[str]) -> bool:
    """Return whether any of the lines would be read as a block marker or the head of a file."""
    return any(_ANY_MARKER.match(line) or is_head(line) for line in lines)


def too_large(source: str) -> bool:
    """Return whether a text has more than :data:`MAX_SOURCE_BYTES`."""
    if len(source) > MAX_SOURCE_BYTES:
        return True
    return not source.isascii() and len(source.encode(errors="replace")) > MAX_SOURCE_BYTES


def parse_source(source: str) -> ast.Module:
    """Return the tree of a program text, whatever the text holds; of all its files together.

    Raises:
        SyntaxError: If it is no Python, or larger than :data:`MAX_SOURCE_BYTES`, or nested deeper
            than the parser can follow; with the file's name if the program has several.
    """
    if too_large(source):
        raise SyntaxError(f"the program is longer than {MAX_SOURCE_BYTES} bytes")
    if not (files := files_of(source)):
        return _parse(source)
    if not is_python(source):
        raise SyntaxError("the program is not Python")
    whole = ast.Module([], [])
    for file in files:
        with _named(file):
            tree = _parse(file.text)
        whole.body += ast.increment_lineno(tree, file.first).body
    return whole


def syntax_place(error: SyntaxError) -> str:
    """Return where an error of this module is, as words to stand before it: "line 3: "."""
    place = f"{error.filename} " if error.filename and error.filename != "<unknown>" else ""
    return f"{place}line {error.lineno}: " if error.lineno else place and f"{place.strip()}: "


@contextmanager
def _named(file: File) -> Iterator[None]:
    """Have a syntax error say in which file it is."""
    try:
        yield
    except SyntaxError as error:
        error.filename = file.name
        raise


def _parse(source: str) -> ast.Module:
    try:
        if "\\" not in source:
            return ast.parse(source)
        with warnings.catch_warnings():  # "\d" in somebody's string is not our user's problem
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (RecursionError, MemoryError):
        raise SyntaxError("the program is nested too deeply") from None
    except ValueError as error:  # NUL bytes, lone surrogates, numbers of 5,000 digits
        raise SyntaxError(str(error)) from None


def check(source: str) -> Checked:
    """Return fingerprint and undefined names of a program from a single parse.

    Statements of the module level are looked up one by one, so a program that shares most of its
    text with one seen before costs little. A program in another language is what its text is,
    blanks at the end of lines apart, and lacks no name.

    Raises:
        SyntaxError: As :func:`parse_source`, and for a ``return``, ``yield``, ``break`` or
            parameter in a wrong place.
    """
    if too_large(source):
        raise SyntaxError(f"the program is longer than {MAX_SOURCE_BYTES} bytes")
    if not (files := files_of(source)):
        return _combine(_facts(source))
    if not is_python(source):
        text = "\n".join(line.rstrip() for line in source.split("\n"))
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
        return Checked(digest.hexdigest(), frozenset())
    facts = []
    for file in files:
        with _named(file):
            facts.append(_facts(file.text))
    keywords = frozenset[str]().union(*(fact.keywords for some in facts for fact in some))
    digest, undefined = blake2b(digest_size=16), frozenset[str]()
    for file, some in zip(files, facts, strict=True):
        checked = _combine(some, keywords)
        digest.update(f"{file.name}\0{checked.fingerprint}".encode())
        undefined |= checked.undefined
    return Checked(digest.hexdigest(), undefined)


def _facts(source: str) -> list[Facts]:
    try:
        parts = _parts(source)
        if len(parts) <= _MAX_PARTS:
            return [fact for part in parts for fact in _facts_of_text(part)]
    except SyntaxError:
        pass  # wrongly cut or wrong: only the whole text tells, and it knows the line
    return list(_facts_of_tree(_parse(source)))


def fingerprint(program: str | ast.Module) -> str:
    """Return 32 hex digits that two programs share if they do the same for the same reason.

    Formatting, comments, docstrings, ``pass`` and the names of local variables and parameters do
    not matter; the name of a parameter does where some call in the program uses it as a keyword,
    and all names do in functions that call ``locals`` or ``eval``. Depends on the text alone, not
    on the process.

    Raises:
        SyntaxError: As :func:`check`.
    """
    if isinstance(program, str):
        return check(program).fingerprint
    return _combine(_facts_of_tree(program)).fingerprint


def undefined_names(tree: ast.Module) -> set[str]:
    """Return the names that are loaded somewhere and that no scope, import or builtin provides.

    A name counts as provided wherever its scope binds it, before or after; a program with a star
    import has no undefined names.

    Raises:
        SyntaxError: As :func:`check`.
    """
    return set(_combine(_facts_of_tree(tree)).undefined)


def _string_lines(source: str) -> frozenset[int]:
    """Return the 0-based lines that begin inside a string; empty if that cannot be told."""
    if '"""' not in source and "'''" not in source:
        return frozenset()
    try:
        tree = parse_source(source)
    except SyntaxError:
        return frozenset()
    return frozenset(
        line
        for node in ast.walk(tree)
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno is not None
        for line in range(node.lineno, node.end_lineno)
    )


def _parts(source: str) -> list[str]:
    starts = [match.start() for match in _STATEMENT.finditer(source)]
    # A decorator opens the statement that follows it.
    starts = [
        start
        for before, start in zip([-1, *starts], starts, strict=False)
        if before < 0 or source[before] != "@"
    ][1:]
    cuts = [0, *starts, len(source)]
    return [source[a:b] for a, b in pairwise(cuts)]


@lru_cache(maxsize=4096)
def _facts_of_text(text: str) -> tuple[Facts, ...]:
    return _facts_of_tree(parse_source(text))


def _facts_of_tree(tree: ast.Module) -> tuple[Facts, ...]:
    try:
        return tuple(facts_of(statement) for statement in tree.body)
    except RecursionError:
        raise SyntaxError("the program is nested too deeply") from None
    except ValueError as error:  # the repr of a number of 5,000 digits
        raise SyntaxError(str(error)) from None


def _combine(facts: Iterable[Facts], keywords: frozenset[str] = frozenset()) -> Checked:
    """Return what the statements of a file amount to.

    Args:
        facts: Of its statements.
        keywords: That calls in other files use.
    """
    facts = list(facts)
    digest = blake2b(digest_size=16)
    keywords = keywords.union(*[fact.keywords for fact in facts])
    for fact in facts:
        digest.update(fact.digest)
        if fact.parameters:
            names = [name if name in keywords else "" for name in fact.parameters]
            digest.update(",".join(names).encode("utf-8", "surrogatepass"))
    undefined = frozenset[str]()
    if not any(fact.star for fact in facts):
        free = frozenset[str]().union(*[fact.free for fact in facts])
        undefined = free.difference(_PROVIDED, *[fact.bound for fact in facts])
    return Checked(digest.hexdigest(), undefined)


def block_tree(lines: Sequence[str]) -> tuple[ast.Module, str]:
    """Return the tree of a block's content, read as if it began at column 0, and its indentation.

    Raises:
        SyntaxError: If the content is not a sequence of whole statements.
    """
    if any("\r" in line[:-1] for line in lines):
        raise SyntaxError("a carriage return inside a line")  # the parser counts it as a line
    flat = dedent("\n".join(lines))
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    return parse_source(flat), indent
