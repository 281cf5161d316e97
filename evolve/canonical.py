"""What a policy is shown of a program, and the way back.

The canonical view is for small models: one statement a line, no comments, and every name of the
program's own is one of v0, v1, ..., so that a name is one token and cannot be misspelt. The raw
view shows the evolve blocks as they were written.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from evolve.files import is_python
from evolve.program import block_tree, check, parse_source, replace_blocks, split_blocks

_BUILTINS = frozenset(dir(builtins))
# An attribute x.v3 is nobody's variable.
_SHOWN_NAME = re.compile(r"(?<![\w.])v(?:0|[1-9][0-9]*)(?!\w)")
_LIKE_SHOWN = re.compile(r"v[0-9]+")
# Fields of the tree that hold a name which the program binds.
_NAME_FIELDS: Mapping[type[ast.AST], str] = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}


@dataclass(frozen=True)
class View:
    """A program as a policy is shown it; line numbers in answers refer to it.

    Attributes:
        source: The program.
        lines: The content of all evolve blocks in order; line N of an answer is ``lines[N - 1]``.
        names: Shown name -> name in the program; empty for the raw view.
        counts: Number of lines in each block; they add up to ``len(lines)``.
        indents: Per block, what was cut off before each line.
        files: Per block, the name of its file; empty in a program that is one Python file.
    """

    source: str
    lines: tuple[str, ...]
    names: Mapping[str, str] = field(hash=False)
    counts: tuple[int, ...]
    indents: tuple[str, ...]
    files: tuple[str, ...]

    def blocks(self) -> list[tuple[str, ...]]:
        """Return the shown lines of each block."""
        result, start = [], 0
        for count in self.counts:
            result.append(self.lines[start : start + count])
            start += count
        return result


@lru_cache(maxsize=512)
def raw_view(source: str) -> View:
    """Return the evolve blocks as they are written.

    Raises:
        ProgramError: If the blocks cannot be told.
    """
    blocks = split_blocks(source)
    return View(
        source,
        tuple(line for block in blocks for line in block.lines),
        {},
        tuple(len(block.lines) for block in blocks),
        ("",) * len(blocks),
        tuple(block.file for block in blocks),
    )


@lru_cache(maxsize=512)
def canonical_view(source: str) -> View:
    """Return the evolve blocks with one statement a line and names v0, v1, ...

    Names are numbered in order of first appearance over all blocks. Builtins, imported names,
    attributes (with the methods and variables of a class), keywords of calls and names with double
    underscores stay. A number that occurs in the program as part of something that stays, ``v3``
    in a string for instance, is passed over. Docstrings and comments are left out.

    A program that would not survive the way there and back, such as one with a block that holds
    half a statement, is shown raw; so is one in another language.

    Raises:
        ProgramError: If the blocks cannot be told.
    """
    if not is_python(source):
        return raw_view(source)
    blocks = split_blocks(source)
    try:
        parsed = [block_tree(block.lines) for block in blocks]
        trees = [tree for tree, _ in parsed]
        kept = _kept_names(parse_source(source))
        texts, names = _renamed(trees, kept, source)
        lines = [[line for line in text.split("\n") if line.strip()] for text in texts]
        view = View(
            source,
            tuple(line for block in lines for line in block),
            names,
            tuple(len(block) for block in lines),
            tuple(indent for _, indent in parsed),
            tuple(block.file for block in blocks),
        )
        if check(to_source(view, lines)) == check(source):
            return view
    except (SyntaxError, RecursionError, ValueError):
        pass  # ast.unparse cannot write some f-strings
    return raw_view(source)


def restore(view: View, blocks: Sequence[Sequence[str]]) -> str:
    """Return the program for edited shown lines, block by block, with its own names again.

    A shown name that the view does not hold stays, unless the program uses that name for something
    else; then it becomes a fresh one.

    Raises:
        SyntaxError: If the result is not Python.
        ProgramError: If ``blocks`` are not as many as the view has.
    """
    source = to_source(view, blocks)
    parse_source(source)
    return source


def to_source(view: View, blocks: Sequence[Sequence[str]]) -> str:
    """Return the same as :func:`restore`, without looking whether it is Python."""
    if not view.names and not any(view.indents):
        return replace_blocks(view.source, blocks)
    known = _real_lines(view)
    used = _names_like_shown(view.source)
    fresh: dict[str, str] = {}
    result = []
    for block, indent in zip(blocks, view.indents, strict=True):
        lines = [
            known[line] if line in known else _real_line(line, view, used, fresh)
            for line in _spaced(block)
        ]
        result.append([indent + line if line else line for line in lines] if indent else lines)
    return replace_blocks(view.source, result)


def _real_line(line: str, view: View, used: frozenset[str], fresh: dict[str, str]) -> str:
    def real(match: re.Match[str]) -> str:
        name = match[0]
        if name in view.names:
            return view.names[name]
        if name not in used or name in _kept_like_shown(view):
            return name
        if name not in fresh:
            taken = used.union(view.names, fresh.values())
            fresh[name] = next(
                v for v in map("v{}".format, range(len(taken) + 1)) if v not in taken
            )
        return fresh[name]

    return _SHOWN_NAME.sub(real, line)


@lru_cache(maxsize=512)
def _real_lines(view: View) -> dict[str, str]:
    """Return shown line -> line with real names, since most lines of an answer are unchanged."""
    used = _names_like_shown(view.source)
    return {line: _real_line(line, view, used, {}) for line in ("", *view.lines)}


def _spaced(lines: Sequence[str]) -> list[str]:
    """Return the lines with two empty ones before each function and class of the top level."""
    result: list[str] = []
    for index, line in enumerate(lines):
        if index and line.startswith(("def ", "class ", "@")) and lines[index - 1][:1] != "@":
            result += ("", "")
        result.append(line)
    return result


@lru_cache(maxsize=512)
def _names_like_shown(source: str) -> frozenset[str]:
    return frozenset(_LIKE_SHOWN.findall(source))


@lru_cache(maxsize=512)
def _kept_like_shown(view: View) -> frozenset[str]:
    """Return what looks like a shown name in the view but was kept from the program."""
    return frozenset(_LIKE_SHOWN.findall("\n".join(view.lines))) - view.names.keys()


def _kept_names(program: ast.Module) -> set[str]:
    kept = set(_BUILTINS)
    for node in _statements(program):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                kept.update((alias.name.partition(".")[0], alias.asname or alias.name))
        elif isinstance(node, ast.ClassDef):
            # What a class binds is an attribute name.
            for statement in node.body:
                if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    kept.add(statement.name)
                else:
                    kept.update(
                        inner.id
                        for inner in ast.walk(statement)
                        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load)
                    )
    return kept


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a tree, which is far quicker than to walk all of it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                waiting += inner


def _renamed(
    trees: Sequence[ast.Module], kept: set[str], source: str
) -> tuple[list[str], dict[str, str]]:
    """Return the text of each tree with shown names, and shown name -> name."""
    # The order of appearance is that of the text, which the tree does not tell; so names are first
    # replaced by marks that can be found in the text.
    mark = "Q"
    while mark in source:
        mark += "q"
    numbers: dict[str, int] = {}

    def marked(name: str) -> str:
        if name in kept or (name.startswith("__") and name.endswith("__")):
            return name
        return f"{mark}{numbers.setdefault(name, len(numbers))}_"

    for tree in trees:
        _strip(tree)
        for node in ast.walk(tree):
            name_field = _NAME_FIELDS.get(type(node))
            if name_field is not None:
                name = getattr(node, name_field)
                if name is not None:
                    setattr(node, name_field, marked(name))
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                node.names = [marked(name) for name in node.names]
    texts = [ast.unparse(tree) for tree in trees]
    pattern = re.compile(mark + r"([0-9]+)_")
    taken = set(_LIKE_SHOWN.findall(pattern.sub(" ", "\n".join(texts))))
    real = list(numbers)
    shown: dict[int, str] = {}
    free = (name for name in map("v{}".format, range(10**9)) if name not in taken)

    def show(match: re.Match[str]) -> str:
        number = int(match[1])
        if number not in shown:
            shown[number] = next(free)
        return shown[number]

    texts = [pattern.sub(show, text) for text in texts]
    return texts, {name: real[number] for number, name in shown.items()}


def _strip(tree: ast.Module) -> None:
    """Remove docstrings, other bare constants and the ``pass`` that nothing needs."""
    for node in _statements(tree):
        for name in ("body", "orelse", "finalbody"):
            body: Any = getattr(node, name, None)
            if not isinstance(body, list) or not body:
                continue
            left = [
                statement
                for statement in body
                if not isinstance(statement, ast.Pass)
                and not (
                    isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                )
            ]
            if not left and name == "body" and node is not tree:
                left = [ast.Pass()]
            body[:] = left
