"""The operators of the scripted mutator: each makes one small change, or finds that it cannot.

Operators on expressions return what to put at a site; operators on statements return lines. All
draw from :class:`Draws` alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from evolve.kinds import ELEMENTWISE, kind_of
from evolve.sites import Site, Statement
from evolve.survey import Donor, Sites

T = TypeVar("T")

_FACTORS = (0.5, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 0.1, 10.0)
_COMMON = (0.0, 0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
_POWERS = (1, 2, 3, 4, 0.5, 1.5, 2.5)
_SMALL = (0.01, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0)
_ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult, ast.Sub),
    ast.Sub: (ast.Add, ast.Mult, ast.Add),
    ast.Mult: (ast.Add, ast.Div, ast.Sub),
    ast.Div: (ast.Mult, ast.Sub, ast.Mult),
    ast.Pow: (ast.Mult, ast.Add),
    ast.Mod: (ast.FloorDiv, ast.Sub),
    ast.FloorDiv: (ast.Mod, ast.Mult),
}
_COMPARISONS: tuple[type[ast.cmpop], ...] = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_SWAPPED = (*_COMPARISONS, ast.Eq, ast.NotEq)
# What may stand for a name or value of a kind where shapes must fit.
_STANDS_FOR = {"f": "fi", "i": "i", "n": "nf", "a": "a", "b": "b", "m": "m", "l": "l"}
_BROADCASTS = {"f": "fi", "i": "i", "n": "nfi", "a": "anfi", "b": "b", "m": "mb", "?": "f"}


class Draws:
    """Uniform draws from a generator, taken in blocks because single draws are slow."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._ready: list[float] = []

    def unit(self) -> float:
        """Return a float in [0, 1)."""
        if not self._ready:
            self._ready = self._rng.random(64).tolist()
        return self._ready.pop()

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items, each as likely as another."""
        return items[int(self.unit() * len(items))]


class Hunk(NamedTuple):
    """Replaces shown lines ``first`` to ``last`` (0-based; none if last is first - 1)."""

    first: int
    last: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """What an operator may use: the program and pieces of others."""

    program: Sites
    inspirations: Sequence[Mapping[str, Sequence[Donor]]]

    def alias(self, module: str) -> str | None:
        """Return the name under which the program imports a module."""
        for name, known in self.program.modules.items():
            if known == module:
                return name
        return None


# Building


def number(value: float) -> ast.expr:
    """Return the expression for a number, rounded to three digits."""
    if isinstance(value, float):
        value = float(f"{value:.3g}")
    if value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def _binary(left: ast.expr, op: type[ast.operator], right: ast.expr) -> ast.expr:
    return ast.BinOp(left, op(), right)


def _call(module: str | None, name: str, *args: ast.expr) -> ast.expr:
    func = ast.Name(name) if module is None else ast.Attribute(ast.Name(module), name)
    return ast.Call(func, list(args), [])


def _compare(left: ast.expr, op: type[ast.cmpop], right: ast.expr) -> ast.expr:
    return ast.Compare(left, [op()], [right])


def clone(node: Any, names: Mapping[str, str]) -> Any:
    """Return a copy of an expression with names replaced."""
    if isinstance(node, ast.Name):
        return ast.Name(names.get(node.id, node.id))
    if isinstance(node, list):
        return [clone(item, names) for item in node]
    if not isinstance(node, ast.AST):
        return node
    return type(node)(**{name: clone(value, names) for name, value in ast.iter_fields(node)})


def adopt(
    donor: Donor, env: Mapping[str, str], draws: Draws, known: Known, *, own: bool
) -> ast.expr | None:
    """Return a donor's expression with its names replaced by names in scope, or None."""
    modules = known.program.modules
    if any(modules.get(alias) != module for alias, module in donor.modules):
        return None
    names = {}
    for name, kind in donor.names:
        if own and env.get(name) == kind and draws.unit() < 0.8:
            continue
        fitting = [other for other, k in env.items() if k in _STANDS_FOR.get(kind, "")]
        if fitting:
            names[name] = draws.pick(fitting)
        elif not own or env.get(name) != kind:
            return None
    # Always a copy: the donor may hold the very site it goes to.
    copy: ast.expr = clone(donor.node, names)
    return copy


def _foreign(known: Known, site: Site, kinds: str, draws: Draws, *, own: bool) -> ast.expr | None:
    source = known.program.donors if own else draws.pick(known.inspirations)
    donors = [donor for kind in kinds for donor in source.get(kind, ())]
    return adopt(draws.pick(donors), site.env, draws, known, own=own) if donors else None


# Operators on expressions


def constant(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Change a number a little, or to another that people write."""
    del known
    node = site.node
    value = node.value
    if site.role == "int" or (type(value) is int and draws.unit() < 0.4):
        near = [value - 1, value + 1, value + 2, value * 2, value // 2, value * 3]
        return number(draws.pick([v for v in near if v >= 0 and v != value]))
    raised = isinstance(site.parent, ast.BinOp) and isinstance(site.parent.op, ast.Pow)
    if raised and site.field == "right":
        return number(draws.pick([v for v in _POWERS if v != value]))
    way = draws.unit()
    if way < 0.55 and value:
        changed = float(f"{value * draws.pick(_FACTORS):.3g}")
    elif way < 0.62 and value:
        return number(-value)
    else:
        changed = draws.pick(_COMMON)
    return number(changed) if changed != value else None


def arithmetic(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Replace an arithmetic operator."""
    del known
    node = site.node
    ops = _ARITHMETIC.get(type(node.op), ())
    if site.role == "int":
        ops = tuple(op for op in ops if op not in (ast.Div, ast.Pow))
    return _binary(node.left, draws.pick(ops), node.right) if ops else None


def comparison(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Replace a comparison, or an ``and`` by an ``or``."""
    del known
    node = site.node
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    others = [op for op in _COMPARISONS if op is not type(node.ops[0])]
    return ast.Compare(node.left, [draws.pick(others)(), *node.ops[1:]], node.comparators)


def operands(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Swap the operands of a difference, quotient or power."""
    del draws, known
    node = site.node
    return ast.BinOp(node.right, node.op, node.left)


def drop(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Drop a term, a factor, a function around a value, a branch or a condition."""
    node = site.node
    if isinstance(node, ast.BinOp):
        kept = draws.pick((node.left, node.right))
        kind = kind_of(kept, site.env, known.program.modules)
        if isinstance(kept, ast.Constant) and site.kind not in "fi":
            return None
        fits = kind == site.kind or site.kind == "?" or (site.kind in "fn" and kind in "fin")
        return kept if fits or kind == "?" else None
    if isinstance(node, ast.UnaryOp):
        kept = node.operand
        return kept if isinstance(kept, ast.expr) else None
    if isinstance(node, ast.BoolOp):
        left = list(node.values)
        left.pop(int(draws.unit() * len(left)))
        return left[0] if len(left) == 1 else ast.BoolOp(node.op, left)
    if isinstance(node, ast.IfExp):
        return draws.pick((node.body, node.orelse))
    kept = node.args[0]
    kind = kind_of(kept, site.env, known.program.modules)
    return kept if kind == site.kind or kind == "?" else None


def wrap(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Put a function or an operation around a value."""
    x = site.node
    if site.role == "int":
        way = draws.unit()
        if way < 0.4:
            return _binary(x, draws.pick((ast.Add, ast.Sub)), ast.Constant(1))
        if way < 0.7:
            return _binary(x, draws.pick((ast.Mult, ast.FloorDiv)), ast.Constant(2))
        return _call(None, draws.pick(("max", "min")), x, number(draws.pick((1, 2, 3, 5))))
    return wrapped(x, site.kind, draws, known)


def wrapped(x: ast.expr, kind: str, draws: Draws, known: Known) -> ast.expr:
    """Return a function of an expression of a numeric kind, defined wherever x is."""
    np_, math = known.alias("numpy"), known.alias("math")
    scalar = kind in "fi"
    way = draws.unit()
    if way < 0.5 and (np_ or (math and scalar)):
        module = np_ if np_ and not (math and scalar and draws.unit() < 0.5) else math
        if np_ and module == np_ and draws.unit() < 0.3:
            return _call(np_, draws.pick(("maximum", "minimum")), x, number(draws.pick(_COMMON)))
        absolute = _call(module, "abs", x) if module == np_ else _call(None, "abs", x)
        name = draws.pick(("sqrt", "log1p", "exp", "tanh", "sin", "cos", "square", "abs", "arctan"))
        if name in ("sqrt", "log1p"):
            return _call(module, name, absolute)
        if name == "exp":
            return _call(module, name, ast.UnaryOp(ast.USub(), absolute))
        if name == "abs":
            return absolute
        if module == np_ or name in ("tanh", "sin", "cos"):
            return _call(module, name, x)
        return _binary(x, ast.Pow, ast.Constant(2))
    if way < 0.58:
        return _call(None, "abs", x)
    if way < 0.64:
        return ast.UnaryOp(ast.USub(), x)
    if way < 0.7:
        return _binary(x, ast.Pow, ast.Constant(2))
    if way < 0.75 and scalar:
        return _call(None, draws.pick(("max", "min")), x, number(draws.pick(_COMMON)))
    if way < 0.79:
        below = _binary(ast.Constant(1.0), ast.Add, _call(None, "abs", x))
        return _binary(ast.Constant(1.0), ast.Div, below)
    if way < 0.9:
        return _binary(number(draws.pick(_FACTORS)), ast.Mult, x)
    return _binary(x, draws.pick((ast.Add, ast.Sub)), number(draws.pick(_SMALL)))


def splice(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Put an expression from elsewhere in the program in the place of this one."""
    return _piece(site, draws, known, own=True)


def inspire(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Put an expression of an inspiration in the place of this one, with names that are here."""
    return _piece(site, draws, known, own=False)


def _piece(site: Site, draws: Draws, known: Known, *, own: bool) -> ast.expr | None:
    if site.role in ("test", "mask"):
        kinds = "b" if site.role == "test" else "m"
    else:
        kinds = "i" if site.role == "int" else _STANDS_FOR.get(site.kind, "fn")
    return _foreign(known, site, kinds, draws, own=own)


def name(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Replace a variable, or a number, by another variable of its kind."""
    del known
    kinds = "i" if site.role == "int" else _STANDS_FOR.get(site.kind, "")
    own = site.node.id if isinstance(site.node, ast.Name) else None
    fitting = [other for other, kind in site.env.items() if kind in kinds and other != own]
    return ast.Name(draws.pick(fitting)) if fitting else None


def combine(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Add, subtract or multiply by something else."""
    return combined(site.node, site, draws, known)


def combined(x: ast.expr, site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Return ``x`` combined with a variable or a piece of the program."""
    kinds = _BROADCASTS[site.kind]
    y: ast.expr | None = None
    if draws.unit() < 0.5:
        own = not known.inspirations or draws.unit() < 0.6
        y = _foreign(known, site, kinds, draws, own=own)
    if y is None:
        fitting = [other for other, kind in site.env.items() if kind in kinds]
        if not fitting:
            return None
        y = ast.Name(draws.pick(fitting))
    if draws.unit() < 0.5:
        y = _binary(number(draws.pick(_SMALL)), ast.Mult, y)
    return _binary(x, draws.pick((ast.Add, ast.Sub, ast.Mult)), y)


def choose(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Make a value depend on a condition."""
    x = site.node
    other = draws.pick(
        (number(draws.pick(_COMMON)), _binary(number(draws.pick(_FACTORS)), ast.Mult, x))
    )
    np_ = known.alias("numpy")
    if site.kind in "fi":
        test = scalar_test(site.env, draws)
        return None if test is None else ast.IfExp(test, x, other)
    if np_ is None:
        return None
    limit = number(draws.pick(_COMMON))
    if site.kind == "a" and draws.unit() < 0.5:
        limit = _call(np_, draws.pick(("mean", "median")), x)
    return _call(np_, "where", _compare(x, draws.pick(_COMPARISONS), limit), x, other)


def scalar_test(env: Mapping[str, str], draws: Draws) -> ast.expr | None:
    """Return a comparison of numbers in scope, or None if there are none."""
    numbers = [other for other, kind in env.items() if kind in "fi"]
    if not numbers:
        return None
    left = draws.pick(numbers)
    same = [other for other in numbers if other != left]
    if same and draws.unit() < 0.5:
        right: ast.expr = ast.Name(draws.pick(same))
    else:
        right = number(draws.pick((0, 1, 2, 3, 5)) if env[left] == "i" else draws.pick(_COMMON))
    return _compare(ast.Name(left), draws.pick(_COMPARISONS), right)


def condition(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Negate a condition, or add another."""
    del known
    test = scalar_test(site.env, draws)
    if test is None or draws.unit() < 0.3:
        return ast.UnaryOp(ast.Not(), site.node)
    return ast.BoolOp(draws.pick((ast.And, ast.Or))(), [site.node, test])


# Operators on statements


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
            value = _binary(x, ast.Sub, _call(np_, draws.pick(("mean", "min", "max")), x))
        else:
            size = _call(np_, "max", _call(np_, "abs", x))
            value = _binary(x, ast.Div, _binary(size, ast.Add, ast.Constant(1e-9)))
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
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        known = isinstance(target, ast.Name) and target.id in statement.env
        return len(node.targets) == 1 and (known or isinstance(target, ast.Subscript))
    if isinstance(node, (ast.If, ast.For, ast.While)):
        return statement.after is not None
    return isinstance(node, ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    )


def guard(statement: Statement, draws: Draws, known: Known) -> Hunk | None:
    """Make a statement depend on a condition."""
    site = Site(statement, None, "", None, "test", "b", statement.env)
    test = _foreign(known, site, "b", draws, own=True) if draws.unit() < 0.4 else None
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
    return {
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }


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
            whole = type(node)(node.name, node.args, [ast.Pass()], [], node.returns, None, lineno=0)
            text = ast.unparse(whole).strip().rpartition("\n")[0]
        case _:
            text = ast.unparse(node)
    return [statement.indent + line for line in text.split("\n")]


def applicable(site: Site) -> list[str]:
    """Return the names of the operators that may work at a site."""
    node, role = site.node, site.role
    names = []
    if role in ("num", "int"):
        is_number = isinstance(node, ast.Constant)
        if is_number and type(node.value) in (int, float):
            names.append("constant")
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            names += ("arithmetic", "drop")
            if isinstance(node.op, (ast.Sub, ast.Div, ast.Pow)):
                names.append("operands")
        if isinstance(node, (ast.UnaryOp, ast.IfExp)) and not is_number:
            names.append("drop")
        if isinstance(node, ast.Call) and len(node.args) == 1 and _function(node) in ELEMENTWISE:
            names.append("drop")
        if isinstance(node, ast.Name):
            names.append("name")
        if not is_number:
            names.append("wrap")
            if role == "num":
                names += ("combine", "choose")
        names += ("splice", "inspire")
    elif role == "test":
        if isinstance(node, ast.Compare) and type(node.ops[0]) in (
            *_COMPARISONS,
            ast.Eq,
            ast.NotEq,
        ):
            names.append("comparison")
        elif isinstance(node, ast.BoolOp):
            names += ("comparison", "drop")
        elif isinstance(node, ast.UnaryOp):
            names.append("drop")
        names += ("condition", "splice", "inspire")
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        names += ("comparison", "splice", "inspire")
    return names


def _function(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


EXPRESSION: dict[str, Callable[[Site, Draws, Known], ast.expr | None]] = {
    "constant": constant,
    "arithmetic": arithmetic,
    "comparison": comparison,
    "operands": operands,
    "drop": drop,
    "wrap": wrap,
    "splice": splice,
    "inspire": inspire,
    "name": name,
    "combine": combine,
    "choose": choose,
    "condition": condition,
}
STATEMENT: dict[str, Callable[[Statement, Draws, Known], Hunk | None]] = {
    "insert": insert,
    "delete": delete,
    "guard": guard,
    "duplicate": duplicate,
    "swap": swap,
}
