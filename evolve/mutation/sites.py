"""Where an expression can be changed, and what is needed in its place.

Decides nothing and changes nothing; :mod:`evolve.mutation.survey` collects the sites of a program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evolve.mutation.kinds import (
    ELEMENTWISE,
    NUMERIC,
    REDUCTIONS,
    kind_of,
    module_of,
    parameter_kinds,
)

_INT_CALLS = frozenset(("range", "zeros", "ones", "empty", "arange", "eye", "reshape"))
_LOOKS = frozenset(("len", "enumerate", "zip", "list", "tuple", "sorted", "isinstance", "reversed"))


@dataclass(eq=False, slots=True)
class Statement:
    """A statement that has its lines for itself.

    Attributes:
        node: The statement.
        first: Index of its first shown line.
        head: Index of the last line that is rewritten when one of its own expressions changes:
            its last line, or the end of the head of a compound statement.
        last: Index of its last line.
        opens_block: Whether its first line is the first of an evolve block.
        indent: What its lines begin with.
        env: Names surely bound before it -> kind.
        after: The same behind it; None where nothing can follow it.
        suite: Number of statements in its suite.
        following: The next statement of the suite, if it has its lines for itself.
        in_function: Whether it belongs to a function.
        chained: Whether it is an ``elif``.
    """

    node: ast.stmt
    first: int
    head: int
    last: int
    opens_block: bool
    indent: str
    env: Mapping[str, str]
    after: Mapping[str, str] | None
    suite: int
    following: Statement | None
    in_function: bool
    chained: bool


@dataclass(eq=False, slots=True)
class Site:
    """An expression that may be replaced.

    Attributes:
        statement: The statement whose lines are rewritten.
        parent: The node that holds it, in ``field`` (at ``index``, if that is a list).
        field: See ``parent``.
        index: See ``parent``.
        role: What is needed there: ``num`` a number or array, ``int`` an integer, ``test`` a
            truth value, ``mask`` a truth value or mask.
        kind: What is there now, see :mod:`evolve.mutation.kinds`.
        env: Names in scope there -> kind.
    """

    statement: Statement
    parent: Any
    field: str
    index: int | None
    role: str
    kind: str
    env: Mapping[str, str]

    @property
    def node(self) -> Any:
        """The expression."""
        value = getattr(self.parent, self.field)
        return value if self.index is None else value[self.index]

    def put(self, node: ast.expr) -> None:
        """Put another expression in its place."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


@dataclass(eq=False)
class Expressions:
    """Collects the sites of one statement."""

    statement: Statement
    modules: Mapping[str, str]
    sites: list[Site]

    def visit(
        self, parent: Any, name: str, index: int | None, role: str, env: Mapping[str, str]
    ) -> None:
        """Note the expression at a place and those in it; ``role`` is "" where it must stay."""
        value = getattr(parent, name)
        node = value if index is None else value[index]
        if role:
            kind = kind_of(node, env, self.modules)
            if (role in ("test", "mask")) or kind in NUMERIC or (kind == "?" and role == "num"):
                self.sites.append(Site(self.statement, parent, name, index, role, kind, env))
        for place, inner_role, inner_env in self._children(node, role, env):
            self.visit(*place, inner_role, inner_env)

    def _children(
        self, node: Any, role: str, env: Mapping[str, str]
    ) -> Iterator[tuple[tuple[Any, str, int | None], str, Mapping[str, str]]]:
        match node:
            case ast.BinOp():
                inner = role if role in ("num", "int", "mask") else ""
                if role == "test":
                    inner = "mask" if isinstance(node.op, (ast.BitAnd, ast.BitOr)) else "num"
                yield (node, "left", None), inner, env
                yield (node, "right", None), inner, env
            case ast.UnaryOp():
                inner = "test" if isinstance(node.op, ast.Not) else role
                yield (node, "operand", None), inner, env
            case ast.Compare():
                kinds = {
                    kind_of(side, env, self.modules) for side in (node.left, *node.comparators)
                }
                inner = "" if kinds & set("sl?F") - {"?"} or _identity(node) else "num"
                yield (node, "left", None), inner, env
                for index in range(len(node.comparators)):
                    yield (node, "comparators", index), inner, env
            case ast.BoolOp():
                for index in range(len(node.values)):
                    yield (node, "values", index), "test", env
            case ast.IfExp():
                yield (node, "test", None), "test", env
                yield (node, "body", None), role, env
                yield (node, "orelse", None), role, env
            case ast.Call():
                yield from self._call(node, role, env)
            case ast.Subscript():
                yield (node, "value", None), "", env
                yield (node, "slice", None), "int", env
            case ast.Slice():
                for part in ("lower", "upper", "step"):
                    if getattr(node, part) is not None:
                        yield (node, part, None), "int", env
            case ast.Attribute():
                yield (node, "value", None), "", env
            case ast.Tuple() | ast.List():
                for index, item in enumerate(node.elts):
                    kind = kind_of(item, env, self.modules)
                    inner = "int" if kind == "i" else "num" if kind in NUMERIC else ""
                    yield (node, "elts", index), inner, env
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                scope = dict(env)
                for generator in node.generators:
                    yield (generator, "iter", None), "", dict(scope)
                    bind_loop(generator.target, generator.iter, scope, self.modules)
                    for index in range(len(generator.ifs)):
                        yield (generator, "ifs", index), "test", scope
                kind = kind_of(node.elt, scope, self.modules)
                yield (node, "elt", None), "num" if kind in NUMERIC else "", scope
            case ast.Lambda():
                yield (node, "body", None), "num", dict(env) | parameter_kinds(node, self.modules)

    def _call(
        self, node: ast.Call, role: str, env: Mapping[str, str]
    ) -> Iterator[tuple[tuple[Any, str, int | None], str, Mapping[str, str]]]:
        name = ""
        if isinstance(node.func, ast.Attribute):
            name = node.func.attr
            yield (node.func, "value", None), "", env
        elif isinstance(node.func, ast.Name):
            name = node.func.id
        numeric = name in ELEMENTWISE or name in REDUCTIONS or name in ("dot", "linspace", "min")
        numeric = numeric or name in ("float", "int", "pow") or self._in_math(node.func)
        for index, arg in enumerate(node.args):
            kind = kind_of(arg, env, self.modules)
            if name in _INT_CALLS and isinstance(arg, (ast.Tuple, ast.List)):
                continue  # a shape
            if name == "where" and index == 0:
                inner = "mask"
            elif name in _LOOKS:
                inner = ""
            elif name in _INT_CALLS or (kind == "i" and not numeric):
                inner = "int" if kind == "i" else ""
            elif numeric:
                inner = role if role == "int" and kind == "i" else "num" if kind != "l" else ""
                if name in REDUCTIONS and index > 0 and name not in ("max", "min"):
                    inner = ""
            else:
                inner = "num" if kind in NUMERIC else ""
            yield (node, "args", index), inner, env
        for keyword in node.keywords:
            if isinstance(keyword.value, ast.Constant) and type(keyword.value.value) is float:
                yield (keyword, "value", None), "num", env
            elif not isinstance(keyword.value, ast.Constant):
                yield (keyword, "value", None), "", env

    def _in_math(self, func: ast.expr) -> bool:
        return isinstance(func, ast.Attribute) and module_of(func.value, self.modules) == "math"


def bind(
    target: ast.expr, value: ast.expr | None, env: dict[str, str], modules: Mapping[str, str]
) -> None:
    """Note in ``env`` what an assignment binds; ``value`` None stands for anything."""
    if isinstance(target, ast.Name):
        env[target.id] = "?" if value is None else kind_of(value, env, modules)
    elif isinstance(target, (ast.Tuple, ast.List)):
        values: Sequence[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            values = value.elts
        for inner, part in zip(target.elts, values, strict=True):
            bind(inner, part, env, modules)
    elif isinstance(target, ast.Starred):
        bind(target.value, ast.List([]), env, modules)


def bind_loop(
    target: ast.expr, over: ast.expr, env: dict[str, str], modules: Mapping[str, str]
) -> None:
    """Bind the target of a for loop or comprehension."""
    called = over.func.id if _calls(over) else ""  # type: ignore[attr-defined]
    element = {"a": "n", "s": "s"}.get(kind_of(over, env, modules), "?")
    if isinstance(target, ast.Name):
        env[target.id] = "i" if called == "range" else element
    elif called == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        inner = over.args[0] if over.args else over  # type: ignore[attr-defined]
        bind(target.elts[0], ast.Constant(0), env, modules)
        bind_loop(target.elts[1], inner, env, modules)
    else:
        bind(target, None, env, modules)


def _calls(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def _identity(node: ast.Compare) -> bool:
    return any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
