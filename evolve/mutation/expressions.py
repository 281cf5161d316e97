"""The operators on expressions: each returns what to put at a site, or None if it cannot.

All draw from :class:`~evolve.mutation.pieces.Draws` alone and leave the tree as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from evolve.mutation.kinds import ELEMENTWISE, kind_of
from evolve.mutation.pieces import (
    BROADCASTS,
    COMMON,
    COMPARISONS,
    FACTORS,
    SMALL,
    STANDS_FOR,
    Draws,
    Known,
    binary,
    call,
    compare,
    foreign,
    number,
)
from evolve.mutation.sites import Site

_POWERS = (1, 2, 3, 4, 0.5, 1.5, 2.5)
_ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult, ast.Sub),
    ast.Sub: (ast.Add, ast.Mult, ast.Add),
    ast.Mult: (ast.Add, ast.Div, ast.Sub),
    ast.Div: (ast.Mult, ast.Sub, ast.Mult),
    ast.Pow: (ast.Mult, ast.Add),
    ast.Mod: (ast.FloorDiv, ast.Sub),
    ast.FloorDiv: (ast.Mod, ast.Mult),
}
_SWAPPED = (*COMPARISONS, ast.Eq, ast.NotEq)


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
        changed = float(f"{value * draws.pick(FACTORS):.3g}")
    elif way < 0.62 and value:
        return number(-value)
    else:
        changed = draws.pick(COMMON)
    return number(changed) if changed != value else None


def arithmetic(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Replace an arithmetic operator."""
    del known
    node = site.node
    ops = _ARITHMETIC.get(type(node.op), ())
    if site.role == "int":
        ops = tuple(op for op in ops if op not in (ast.Div, ast.Pow))
    return binary(node.left, draws.pick(ops), node.right) if ops else None


def comparison(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Replace a comparison, or an ``and`` by an ``or``."""
    del known
    node = site.node
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    others = [op for op in COMPARISONS if op is not type(node.ops[0])]
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
            return binary(x, draws.pick((ast.Add, ast.Sub)), ast.Constant(1))
        if way < 0.7:
            return binary(x, draws.pick((ast.Mult, ast.FloorDiv)), ast.Constant(2))
        return call(None, draws.pick(("max", "min")), x, number(draws.pick((1, 2, 3, 5))))
    return wrapped(x, site.kind, draws, known)


def wrapped(x: ast.expr, kind: str, draws: Draws, known: Known) -> ast.expr:
    """Return a function of an expression of a numeric kind, defined wherever x is."""
    np_, math = known.alias("numpy"), known.alias("math")
    scalar = kind in "fi"
    way = draws.unit()
    if way < 0.5 and (np_ or (math and scalar)):
        module = np_ if np_ and not (math and scalar and draws.unit() < 0.5) else math
        if np_ and module == np_ and draws.unit() < 0.3:
            return call(np_, draws.pick(("maximum", "minimum")), x, number(draws.pick(COMMON)))
        absolute = call(module, "abs", x) if module == np_ else call(None, "abs", x)
        name = draws.pick(("sqrt", "log1p", "exp", "tanh", "sin", "cos", "square", "abs", "arctan"))
        if name in ("sqrt", "log1p"):
            return call(module, name, absolute)
        if name == "exp":
            return call(module, name, ast.UnaryOp(ast.USub(), absolute))
        if name == "abs":
            return absolute
        if module == np_ or name in ("tanh", "sin", "cos"):
            return call(module, name, x)
        return binary(x, ast.Pow, ast.Constant(2))
    if way < 0.58:
        return call(None, "abs", x)
    if way < 0.64:
        return ast.UnaryOp(ast.USub(), x)
    if way < 0.7:
        return binary(x, ast.Pow, ast.Constant(2))
    if way < 0.75 and scalar:
        return call(None, draws.pick(("max", "min")), x, number(draws.pick(COMMON)))
    if way < 0.79:
        below = binary(ast.Constant(1.0), ast.Add, call(None, "abs", x))
        return binary(ast.Constant(1.0), ast.Div, below)
    if way < 0.9:
        return binary(number(draws.pick(FACTORS)), ast.Mult, x)
    return binary(x, draws.pick((ast.Add, ast.Sub)), number(draws.pick(SMALL)))


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
        kinds = "i" if site.role == "int" else STANDS_FOR.get(site.kind, "fn")
    return foreign(known, site, kinds, draws, own=own)


def name(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Replace a variable, or a number, by another variable of its kind."""
    del known
    kinds = "i" if site.role == "int" else STANDS_FOR.get(site.kind, "")
    own = site.node.id if isinstance(site.node, ast.Name) else None
    fitting = [other for other, kind in site.env.items() if kind in kinds and other != own]
    return ast.Name(draws.pick(fitting)) if fitting else None


def combine(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Add, subtract or multiply by something else."""
    return combined(site.node, site, draws, known)


def combined(x: ast.expr, site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Return ``x`` combined with a variable or a piece of the program."""
    kinds = BROADCASTS[site.kind]
    y: ast.expr | None = None
    if draws.unit() < 0.5:
        own = not known.inspirations or draws.unit() < 0.6
        y = foreign(known, site, kinds, draws, own=own)
    if y is None:
        fitting = [other for other, kind in site.env.items() if kind in kinds]
        if not fitting:
            return None
        y = ast.Name(draws.pick(fitting))
    if draws.unit() < 0.5:
        y = binary(number(draws.pick(SMALL)), ast.Mult, y)
    return binary(x, draws.pick((ast.Add, ast.Sub, ast.Mult)), y)


def choose(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Make a value depend on a condition."""
    x = site.node
    other = draws.pick(
        (number(draws.pick(COMMON)), binary(number(draws.pick(FACTORS)), ast.Mult, x))
    )
    np_ = known.alias("numpy")
    if site.kind in "fi":
        test = scalar_test(site.env, draws)
        return None if test is None else ast.IfExp(test, x, other)
    if np_ is None:
        return None
    limit = number(draws.pick(COMMON))
    if site.kind == "a" and draws.unit() < 0.5:
        limit = call(np_, draws.pick(("mean", "median")), x)
    return call(np_, "where", compare(x, draws.pick(COMPARISONS), limit), x, other)


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
        right = number(draws.pick((0, 1, 2, 3, 5)) if env[left] == "i" else draws.pick(COMMON))
    return compare(ast.Name(left), draws.pick(COMPARISONS), right)


def condition(site: Site, draws: Draws, known: Known) -> ast.expr | None:
    """Negate a condition, or add another."""
    del known
    test = scalar_test(site.env, draws)
    if test is None or draws.unit() < 0.3:
        return ast.UnaryOp(ast.Not(), site.node)
    return ast.BoolOp(draws.pick((ast.And, ast.Or))(), [site.node, test])


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
            *COMPARISONS,
            ast.Eq,
            ast.NotEq,
        ):
            names.append("comparison")
        elif isinstance(node, ast.BoolOp):
            names += ("comparison", "drop")
        elif isinstance(node, ast.UnaryOp):
            names.append("drop")
        names += ("condition", "splice", "inspire")
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
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
