"""The operators on statements: each returns the lines that change, or None if it cannot."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple

from evolve.mutation.expressions import combined, scalar_test, wrapped
from evolve.mutation.pieces import Draws, Known, binary, call, foreign
from evolve.mutation.sites import Site, Statement

_MAX_DELETED = 8


class Hunk(NamedTuple):
    """Replaces shown lines ``first`` to ``last`` (0-based; none if last is first - 1)."""

    first: int
    last: int
    lines: tuple[str, ...]


def insert(statement: Statement, draws: Draws, known: Known) -> Hunk | None:
    """Insert an assignment that changes a number or an array that is in scope."""
    behind = statement.opens_block or (statement.following is None and draws.unit() < 0.5)
    env = statement.after if behind else statement.env
    if env is None or (behind and isinstance(statement.node, (ast.FunctionDef, ast.ClassDef))):
        return None
    numeric = [other for other, kind in env.items() if kind in "fan"]
    used = _names(statement.node)
    likely = [other for other in numeric if other in used] if draws.unit() < 0.85 else numeric
    if not likely:
        return None
    target = draws.pick(likely)
    x: ast.expr = ast.Name(target)
    site = Site(statement, None, "", None, "num", env[target], env)
    np_, way = known.alias("numpy"), draws.unit()
    value: ast.expr | None
    if way < 0.2 and env[target] == "a" and np_:
        if draws.unit() < 0.5:
            value = binary(x, ast.Sub, call(np_, draws.pick(("mean", "min", "max")), x))
        else:
            size = call(np_, "max", call(np_, "abs", x))
            value = binary(x, ast.Div, binary(size, ast.Add, ast.Constant(1e-9)))
    elif way < 0.6:
        value = combined(x, site, draws, known)
    else:
        value = wrapped(x, env[target], draws, known)
    if value is None:
        return None
    text = f"{statement.indent}{target} = {ast.unparse(value)}"
    at = statement.last + 1 if behind else statement.first
    return Hunk(at, at - 1, (text,))


def delete(statement: Statement, draws: Draws, known: Known) -> Hunk | None:
    """Delete a statement whose absence leaves no name unbound."""
    del draws, known
    return Hunk(statement.first, statement.last, ())


def can_delete(statement: Statement) -> bool:
    """Return whether the statement can be left out, or be made to depend on a condition."""
    node = statement.node
    if statement.suite < 2 or not statement.in_function or statement.chained:
        return False
    if statement.last - statement.first >= _MAX_DELETED:
        return False
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        known = isinstance(target, ast.Name) and target.id in statement.env
        return len(node.targets) == 1 and (known or isinstance(target, ast.Subscript))
    if isinstance(node, ast.If):
        return statement.after is not None and _bound(node) <= statement.env.keys()
    if isinstance(node, (ast.For, ast.While)):
        return statement.after is not None
    return isinstance(node, ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    )


def guard(statement: Statement, draws: Draws, known: Known) -> Hunk | None:
    """Make a statement depend on a condition."""
    site = Site(statement, None, "", None, "test", "b", statement.env)
    test = foreign(known, site, "b", draws, own=True) if draws.unit() < 0.4 else None
    test = test or scalar_test(statement.env, draws)
    if test is None or statement.first != statement.last:
        return None
    line = rewritten(statement)
    return Hunk(
        statement.first,
        statement.last,
        (f"{statement.indent}if {ast.unparse(test)}:", *[" " * 4 + text for text in line]),
    )


def duplicate(statement: Statement, draws: Draws, known: Known) -> Hunk | None:
    """Do a step twice."""
    del draws, known
    return Hunk(statement.last + 1, statement.last, tuple(rewritten(statement)))


def can_duplicate(statement: Statement) -> bool:
    """Return whether doing the statement again may change anything."""
    node = statement.node
    if statement.first != statement.last or not statement.in_function:
        return False
    if isinstance(node, ast.AugAssign):
        return True
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        own = node.targets[0].id
        return any(
            isinstance(inner, ast.Name) and inner.id == own for inner in ast.walk(node.value)
        )
    return False


def swap(statement: Statement, draws: Draws, known: Known) -> Hunk | None:
    """Swap a statement with the next."""
    del draws, known
    after = statement.following
    assert after is not None
    return Hunk(statement.first, after.last, (*rewritten(after), *rewritten(statement)))


def can_swap(statement: Statement) -> bool:
    """Return whether the next statement can come first, and the order may matter."""
    after, node = statement.following, statement.node
    simple = (ast.Assign, ast.AugAssign)
    if after is None or not isinstance(node, simple) or not isinstance(after.node, simple):
        return False
    if after.first != statement.last + 1:
        return False
    loads = _names(after.node) & after.env.keys()
    return loads <= statement.env.keys() and bool(_bound(node) & (loads | _bound(after.node)))


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _bound(node: ast.AST) -> set[str]:
    bound = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            bound.add(inner.id)
        elif isinstance(inner, ast.alias):
            bound.add(inner.asname or inner.name.partition(".")[0])
        elif isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
            bound.add(inner.name)
    return bound


def rewritten(statement: Statement) -> list[str]:
    """Return the lines of a statement, or of its head, as its tree has it now."""
    node: Any = statement.node
    match node:
        case ast.If() | ast.While():
            word = "elif" if statement.chained else type(node).__name__.lower()
            text = f"{word} {ast.unparse(node.test)}:"
        case ast.For() | ast.AsyncFor():
            whole: ast.stmt = type(node)(node.target, node.iter, [ast.Pass()], [], None, lineno=0)
            text = ast.unparse(whole).partition("\n")[0]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            whole = type(node)(
                node.name,
                node.args,
                [ast.Pass()],
                node.decorator_list,
                node.returns,
                None,
                lineno=0,
            )
            text = ast.unparse(whole).strip().rpartition("\n")[0]
        case _:
            text = ast.unparse(node)
    return [statement.indent + line for line in text.split("\n")]


STATEMENT: dict[str, Callable[[Statement, Draws, Known], Hunk | None]] = {
    "insert": insert,
    "delete": delete,
    "guard": guard,
    "duplicate": duplicate,
    "swap": swap,
}
