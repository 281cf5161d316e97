"""What the mutator knows of a program: its statements, its expressions, what is in scope where.

Reads the shown lines of a view. Decides nothing and changes nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from evolve.canonical import View
from evolve.mutation.kinds import NUMERIC, joined, kind_of, parameter_kinds
from evolve.mutation.sites import Expressions, Site, Statement, bind, bind_loop
from evolve.program import block_tree, parse_source

_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Donor:
    """An expression that may be used elsewhere.

    Attributes:
        node: The expression.
        kind: Its kind.
        names: Its free names with their kinds.
        modules: The names in it that stand for modules, with these.
    """

    node: ast.expr
    kind: str
    names: tuple[tuple[str, str], ...]
    modules: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sites:
    """Everything that the mutator knows of a program.

    Attributes:
        modules: Names that stand for modules -> module.
        statements: The statements in order.
        sites: The expressions that may be replaced.
        donors: Kind -> expressions of the program that may be used elsewhere.
    """

    modules: Mapping[str, str]
    statements: tuple[Statement, ...]
    sites: tuple[Site, ...]
    donors: Mapping[str, tuple[Donor, ...]]


@lru_cache(maxsize=256)
def sites_of(view: View) -> Sites:
    """Return what can be changed in a view; a block of half a statement has nothing."""
    try:
        modules = _modules(parse_source(view.source))
    except SyntaxError:
        modules = {}
    reader = _Reader(view.lines, modules)
    env: dict[str, str] = {}
    start = 0
    for lines in view.blocks():
        try:
            tree, indent = block_tree(lines)
            reader.offset, reader.shift = start, len(indent)
            reader.suite(tree.body, env, in_function=False)
        except (SyntaxError, RecursionError):
            pass
        start += len(lines)
    return Sites(
        modules, tuple(reader.statements), tuple(reader.sites), _donors(reader.sites, modules)
    )


@lru_cache(maxsize=256)
def donors_of(source: str) -> Mapping[str, tuple[Donor, ...]]:
    """Return kind -> expressions of another program; nothing if it cannot be read."""
    try:
        tree = parse_source(source)
        modules = _modules(tree)
        reader = _Reader(re.split(r"\r\n?|\n", source), modules)
        reader.suite(tree.body, {}, in_function=False)
        return _donors(reader.sites, modules)
    except (SyntaxError, RecursionError):
        return {}


def _modules(tree: ast.Module) -> dict[str, str]:
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                outer = alias.name.partition(".")[0]
                modules[alias.asname or outer] = alias.name if alias.asname else outer
    return modules


def _donors(sites: Sequence[Site], modules: Mapping[str, str]) -> dict[str, tuple[Donor, ...]]:
    found: dict[str, list[Donor]] = {}
    seen = set()
    for site in sites:
        node = site.node
        if isinstance(node, (ast.Constant, ast.Name)) or not 3 <= _size(node) <= 24:
            continue
        needs = _needs(node, site.env, modules)
        if needs is None:
            continue
        text = ast.unparse(node)
        if (text, needs) not in seen:
            seen.add((text, needs))
            kind = "b" if site.role == "test" else site.kind
            found.setdefault(kind, []).append(Donor(node, kind, *needs))
    return {kind: tuple(donors) for kind, donors in found.items()}


def _size(node: ast.AST) -> int:
    return sum(1 for inner in ast.walk(node) if isinstance(inner, ast.expr))


_Names = tuple[tuple[str, str], ...]


def _needs(
    node: ast.expr, env: Mapping[str, str], modules: Mapping[str, str]
) -> tuple[_Names, _Names] | None:
    """Return the names and modules that an expression needs, or None if it must stay."""
    names: dict[str, str] = {}
    used: dict[str, str] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            if inner.id in modules:
                used[inner.id] = modules[inner.id]
            elif inner.id in env:
                names[inner.id] = env[inner.id]
            elif inner.id not in _BUILTINS:
                return None
        elif isinstance(inner, _UNMOVABLE):
            return None
    return tuple(names.items()), tuple(used.items())


_BUILTINS = frozenset(
    ["abs", "min", "max", "sum", "len", "float", "int", "round", "bool", "pow", "sorted"]
)
_UNMOVABLE = (
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr),
    *(ast.Await, ast.Yield, ast.YieldFrom, ast.Starred, ast.JoinedStr),
)


@dataclass(eq=False)
class _Reader:
    lines: Sequence[str]
    modules: Mapping[str, str]
    offset: int = 0
    shift: int = 0
    # Inside a class: what its methods see, which is not what it binds.
    around_class: dict[str, str] | None = None
    statements: list[Statement] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)

    # Statements. Each call adds to ``env`` what its statements surely bind.

    def suite(self, body: list[ast.stmt], env: dict[str, str], *, in_function: bool) -> None:
        before: Statement | None = None
        for position, node in enumerate(body):
            alone = self._alone(body, position)
            entry = Statement(
                node,
                self.offset + _first_line(node) - 1,
                self.offset + _head_line(node) - 1,
                self.offset + (node.end_lineno or node.lineno) - 1,
                _first_line(node) == 1,
                "",
                dict(env),
                None,
                len(body),
                None,
                in_function,
                False,
            )
            line = self.lines[entry.first]
            entry.indent = line[: len(line) - len(line.lstrip())]
            entry.chained = isinstance(node, ast.If) and line.lstrip().startswith("elif")
            count = len(self.sites)
            self._own_sites(entry, entry.env)
            if alone:
                self.statements.append(entry)
                if before is not None:
                    before.following = entry
            else:
                del self.sites[count:]
            before = entry if alone else None
            self._inner(node, env, in_function)
            entry.after = None if isinstance(node, _ENDS) else dict(env)

    def _alone(self, body: list[ast.stmt], position: int) -> bool:
        """Return whether a statement shares none of its lines with another."""
        node = body[position]
        first, head = _first_line(node), _head_line(node)
        inner = getattr(node, "body", None)
        if inner and _first_line(inner[0]) <= head:
            return False
        if position and (body[position - 1].end_lineno or 0) >= first:
            return False
        if position + 1 < len(body) and _first_line(body[position + 1]) <= (node.end_lineno or 0):
            return False
        # "else: x = 1" leaves something before it.
        line = self.lines[self.offset + node.lineno - 1]
        return len(line) - len(line.lstrip()) == node.col_offset + self.shift

    def _inner(self, node: Any, env: dict[str, str], in_function: bool) -> None:
        """Visit the suites of a statement and note what it binds."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            env[node.name] = "F"
            around, self.around_class = self.around_class, None
            inner = dict(env if around is None else around)
            inner |= parameter_kinds(node, self.modules)
            self.suite(node.body, inner, in_function=True)
            self.around_class = around
        elif isinstance(node, ast.ClassDef):
            env[node.name] = "F"
            around, self.around_class = self.around_class, dict(env)
            self.suite(node.body, dict(env), in_function=False)
            self.around_class = around
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            inner = dict(env)
            bind_loop(node.target, node.iter, inner, self.modules)
            self.suite(node.body, inner, in_function=in_function)
            self.suite(node.orelse, dict(env), in_function=in_function)
        elif isinstance(node, ast.While):
            self.suite(node.body, dict(env), in_function=in_function)
            self.suite(node.orelse, dict(env), in_function=in_function)
        elif isinstance(node, ast.If):
            ways = []
            for body in (node.body, node.orelse):
                inner = dict(env)
                self.suite(body, inner, in_function=in_function)
                if not (body and isinstance(body[-1], _ENDS)):
                    ways.append(inner)
            for name in set(ways[0]).intersection(*ways[1:]) if ways else ():
                env[name] = joined(*[way[name] for way in ways])
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    bind(item.optional_vars, None, env, self.modules)
            self.suite(node.body, env, in_function=in_function)
        elif isinstance(node, (ast.Try, ast.TryStar)):
            self.suite(node.body, dict(env), in_function=in_function)
            for handler in node.handlers:
                inner = dict(env)
                if handler.name:
                    inner[handler.name] = "?"
                self.suite(handler.body, inner, in_function=in_function)
            self.suite(node.orelse, dict(env), in_function=in_function)
            self.suite(node.finalbody, env, in_function=in_function)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                self.suite(case.body, dict(env), in_function=in_function)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                bind(target, node.value, env, self.modules)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            bind(node.target, node.value, env, self.modules)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
            env[node.target.id] = kind_of(value, env, self.modules)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                env.pop(alias.asname or alias.name, None)

    # Expressions.

    def _own_sites(self, entry: Statement, env: Mapping[str, str]) -> None:
        node: Any = entry.node
        visit = Expressions(entry, self.modules, self.sites).visit
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)):
            if node.value is not None:
                visit(node, "value", None, self._role(node.value, env), env)
            for target in getattr(node, "targets", ()):
                if isinstance(target, ast.Subscript):
                    visit(target, "slice", None, "int", env)
        elif isinstance(node, ast.AugAssign):
            target = ast.Name(node.target.id) if isinstance(node.target, ast.Name) else node.target
            kind = kind_of(target, env, self.modules)
            visit(node, "value", None, "int" if kind == "i" else self._role(node.value, env), env)
            if isinstance(node.target, ast.Subscript):
                visit(node.target, "slice", None, "int", env)
        elif isinstance(node, (ast.If, ast.While)):
            visit(node, "test", None, "test", env)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            visit(node, "iter", None, "", env)
        elif isinstance(node, ast.Expr):
            visit(node, "value", None, "", env)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for index, default in enumerate(node.args.defaults):
                if isinstance(default, ast.Constant):
                    visit(node.args, "defaults", index, self._role(default, env), env)

    def _role(self, node: ast.expr, env: Mapping[str, str]) -> str:
        kind = kind_of(node, env, self.modules)
        if kind == "i":
            return "int"
        if kind in NUMERIC:
            return "num"
        return {"m": "mask", "b": "test"}.get(kind, "")


def _first_line(node: Any) -> int:
    """Return the first line of a statement with its decorators."""
    decorators = getattr(node, "decorator_list", None)
    return min([int(node.lineno), *[int(decorator.lineno) for decorator in decorators or ()]])


def _head_line(node: Any) -> int:
    """Return the last line of the head of a compound statement, or of a simple one."""
    body: Any = getattr(node, "body", None)
    if not isinstance(body, list) or not body:
        return int(node.end_lineno or node.lineno)
    return max(int(node.lineno), _first_line(body[0]) - 1)
