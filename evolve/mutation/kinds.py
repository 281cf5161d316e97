"""A guess at what an expression holds: enough for the mutator to write programs that run.

Kinds are one letter: ``f`` float, ``i`` int, ``a`` array, ``n`` a number or an array, ``b`` truth
value, ``m`` mask array or truth value, ``s`` string, ``l`` list, tuple or dict, ``r`` something to
iterate over, ``F`` function, ``?`` unknown. A guess may be wrong; nothing but the share of children
that run depends on it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

NUMERIC = frozenset("fian")

#: numpy functions of one number or array that keep its shape.
ELEMENTWISE = frozenset(
    [
        *("abs", "absolute", "sqrt", "exp", "log", "log1p", "expm1", "log2", "log10", "square"),
        *("sin", "cos", "tan", "tanh", "arctan", "arcsin", "arccos", "sinh", "cosh", "sign"),
        *("negative", "floor", "ceil", "round", "rint", "nan_to_num", "cbrt", "reciprocal"),
        *("maximum", "minimum", "clip", "power", "add", "subtract", "multiply", "divide", "hypot"),
        *("fmax", "fmin", "mod", "arctan2", "float64", "asarray", "where"),
    ]
)
REDUCTIONS = frozenset(
    [
        *("sum", "mean", "max", "min", "std", "var", "median", "prod", "ptp", "amax", "amin"),
        *("nanmax", "nanmin", "nanmean", "percentile", "quantile", "average", "norm"),
    ]
)
_COUNTS = frozenset(("argmax", "argmin", "count_nonzero", "searchsorted"))
_ARRAYS = frozenset(
    [
        *("zeros", "ones", "empty", "full", "arange", "linspace", "array", "zeros_like", "diff"),
        *("ones_like", "full_like", "empty_like", "cumsum", "cumprod", "sort", "argsort"),
        *("concatenate", "stack", "vstack", "hstack", "tile", "repeat", "flip", "roll", "outer"),
        *("column_stack", "pad", "eye", "diag", "copy", "convolve", "gradient", "unique"),
        *("flatnonzero", "astype", "reshape", "ravel", "flatten", "logspace", "geomspace"),
        *("random", "uniform", "normal", "standard_normal", "permutation"),
    ]
)
_COUNTED = frozenset(("range", "arange", "zeros", "ones", "empty", "full", "eye", "identity"))
_MASKS = frozenset(("isfinite", "isnan", "isinf", "logical_and", "logical_or", "logical_not"))
_FLOAT_NAMES = frozenset(("pi", "e", "inf", "nan", "tau"))
_INT_OPS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow)
_BIT_OPS = (ast.BitAnd, ast.BitOr, ast.BitXor)

Env = Mapping[str, str]


def kind_of(node: ast.expr, env: Env, modules: Mapping[str, str]) -> str:
    """Return the kind of an expression.

    Args:
        node: The expression.
        env: Names in scope -> kind.
        modules: Names that stand for modules -> module.
    """
    rule = _RULES.get(node.__class__)
    return rule(node, env, modules) if rule else "?"


def joined(*kinds: str) -> str:
    """Return the kind of a value that may be any of ``kinds``, or of arithmetic among them."""
    present = frozenset(kinds)
    if len(present) == 1:
        return kinds[0]
    if present <= {"i", "b"}:
        return "i"
    if present <= {"f", "i", "b"}:
        return "f"
    if "a" in present and present <= {"a", "f", "i", "n", "b", "m", "?"}:
        return "a"
    if "n" in present and present <= {"f", "i", "n", "b", "?"}:
        return "n"
    return "?"


def _constant(node: ast.Constant, env: Env, modules: Mapping[str, str]) -> str:
    del env, modules
    kinds = {bool: "b", int: "i", float: "f", str: "s"}
    return kinds.get(type(node.value), "?")


def _name(node: ast.Name, env: Env, modules: Mapping[str, str]) -> str:
    del modules
    return env.get(node.id, "?")


def _binop(node: ast.BinOp, env: Env, modules: Mapping[str, str]) -> str:
    left, right = kind_of(node.left, env, modules), kind_of(node.right, env, modules)
    if isinstance(node.op, _BIT_OPS):
        return "m" if "m" in (left, right) else joined(left, right)
    if "l" in (left, right):
        return "l"
    if "s" in (left, right):
        return "s"
    kind = joined(left, right)
    if kind in "ib":
        return "i" if isinstance(node.op, _INT_OPS) else "f"
    if kind == "?":
        return "n"
    return "a" if kind == "m" else kind


def _unary(node: ast.UnaryOp, env: Env, modules: Mapping[str, str]) -> str:
    if isinstance(node.op, ast.Not):
        return "b"
    return kind_of(node.operand, env, modules)


def _compare(node: ast.Compare, env: Env, modules: Mapping[str, str]) -> str:
    kinds = [kind_of(side, env, modules) for side in (node.left, *node.comparators)]
    if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
        return "b"
    return "m" if "a" in kinds or "n" in kinds else "b"


def _boolop(node: ast.BoolOp, env: Env, modules: Mapping[str, str]) -> str:
    del node, env, modules
    return "b"


def _ifexp(node: ast.IfExp, env: Env, modules: Mapping[str, str]) -> str:
    return joined(kind_of(node.body, env, modules), kind_of(node.orelse, env, modules))


def _fixed(kind: str) -> Callable[[Any, Env, Mapping[str, str]], str]:
    def rule(node: ast.expr, env: Env, modules: Mapping[str, str]) -> str:
        del node, env, modules
        return kind

    return rule


def _subscript(node: ast.Subscript, env: Env, modules: Mapping[str, str]) -> str:
    base = kind_of(node.value, env, modules)
    index = node.slice
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return "i"
    if isinstance(index, ast.Slice):
        return base if base in "als" else "?"
    if base == "a":
        if isinstance(index, ast.Tuple):
            sliced = any(isinstance(item, ast.Slice) for item in index.elts)
            return "a" if sliced else "f"
        return "n" if kind_of(index, env, modules) in "i?" else "a"
    return "?"


def _attribute(node: ast.Attribute, env: Env, modules: Mapping[str, str]) -> str:
    if isinstance(node.value, ast.Name) and node.value.id in modules:
        return "f" if node.attr in _FLOAT_NAMES else "?"
    fixed = {"shape": "l", "size": "i", "ndim": "i", "T": "a"}
    del env
    return fixed.get(node.attr, "?")


def _call(node: ast.Call, env: Env, modules: Mapping[str, str]) -> str:
    func = node.func
    first = node.args[0] if node.args else None
    if isinstance(func, ast.Name):
        return _builtin_call(func.id, node, env, modules)
    if not isinstance(func, ast.Attribute):
        return "?"
    module = module_of(func.value, modules)
    name = func.attr
    if module == "math":
        return "i" if name in ("floor", "ceil", "isqrt", "comb", "gcd") else "f"
    if module is None and not isinstance(func.value, ast.Name):
        module = "method"
    if module is None and env.get(func.value.id, "?") not in "a?n":  # type: ignore[attr-defined]
        return "?"
    if name in REDUCTIONS:
        axis = any(keyword.arg == "axis" for keyword in node.keywords) or (
            len(node.args) > (1 if module in ("numpy", "numpy.linalg") else 0)
            and name not in ("percentile", "quantile", "average", "norm")
        )
        return "a" if axis else "f"
    if name in _COUNTS:
        return "i"
    if name in _MASKS:
        return "m"
    if name in ELEMENTWISE and first is not None:
        if name == "where":
            return joined(*[kind_of(arg, env, modules) for arg in node.args[1:]]) or "a"
        if name == "asarray":
            return "a"
        return _number(joined(*[kind_of(arg, env, modules) for arg in node.args]))
    if name in _ARRAYS:
        scalar = name in ("random", "uniform", "normal") and not node.args and not node.keywords
        return "f" if scalar else "a"
    return "n" if name in ("dot", "interp", "inner") else "?"


def _number(kind: str) -> str:
    return {"i": "f", "b": "f", "?": "n", "m": "a", "l": "a"}.get(kind, kind)


def _builtin_call(name: str, node: ast.Call, env: Env, modules: Mapping[str, str]) -> str:
    fixed = {"len": "i", "int": "i", "float": "f", "bool": "b", "str": "s", "list": "l"}
    fixed |= {"sorted": "l", "tuple": "l", "dict": "l", "set": "l", "range": "r", "zip": "r"}
    fixed |= {"enumerate": "r", "reversed": "r", "any": "b", "all": "b", "isinstance": "b"}
    if name in fixed:
        return fixed[name]
    kinds = [kind_of(arg, env, modules) for arg in node.args]
    if name == "abs" and kinds:
        return "n" if kinds[0] == "?" else kinds[0]
    if name == "round":
        return "i" if len(kinds) == 1 else "f"
    if name in ("min", "max") and kinds:
        return joined(*kinds) if len(kinds) > 1 else ("f" if kinds[0] == "a" else "?")
    return "f" if name == "sum" else "?"


def module_of(node: ast.expr, modules: Mapping[str, str]) -> str | None:
    """Return the module that ``np`` or ``np.linalg`` stands for, or None."""
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    if isinstance(node, ast.Attribute):
        outer = module_of(node.value, modules)
        return f"{outer}.{node.attr}" if outer else None
    return None


_RULES: dict[type[ast.expr], Callable[[Any, Env, Mapping[str, str]], str]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.BinOp: _binop,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _boolop,
    ast.IfExp: _ifexp,
    ast.Subscript: _subscript,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.List: _fixed("l"),
    ast.Tuple: _fixed("l"),
    ast.Dict: _fixed("l"),
    ast.Set: _fixed("l"),
    ast.ListComp: _fixed("l"),
    ast.SetComp: _fixed("l"),
    ast.DictComp: _fixed("l"),
    ast.GeneratorExp: _fixed("r"),
    ast.JoinedStr: _fixed("s"),
    ast.Lambda: _fixed("F"),
}


def parameter_kinds(function: Any, modules: Mapping[str, str]) -> dict[str, str]:
    """Return parameter -> kind for a function or lambda, guessed from defaults and from its use."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    kinds = {arg.arg: "?" for arg in (*positional, *arguments.kwonlyargs)}
    for star in (arguments.vararg, arguments.kwarg):
        if star is not None:
            kinds[star.arg] = "l"
    defaults = list(zip(positional[::-1], arguments.defaults[::-1], strict=False))
    defaults += [
        (a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d
    ]
    given = {arg.arg: kind_of(default, {}, modules) for arg, default in defaults}
    body = function.body if isinstance(function.body, list) else [function.body]
    used = _uses(body, kinds, modules)
    for name in kinds:
        if given.get(name, "?") != "?":
            kinds[name] = given[name]
        elif "count" in used[name]:
            kinds[name] = "i"
        elif used[name] & {"index", "array"}:
            kinds[name] = "a" if used[name] & {"array", "number"} else "l"
        elif "number" in used[name]:
            kinds[name] = "n"
    # Where nothing tells what a parameter is, a number is the best guess: it keeps a program of one
    # line from being a dead end, and what is not used yet may come into use.
    mentioned = {n.id for part in body for n in ast.walk(part) if isinstance(n, ast.Name)}
    silent = set(kinds.values()) <= {"?"}
    for name in kinds:
        if kinds[name] == "?" and not used[name] and (silent or name not in mentioned):
            kinds[name] = "n"
    return kinds


def _uses(
    body: list[Any], names: Mapping[str, str], modules: Mapping[str, str]
) -> dict[str, set[str]]:
    used: dict[str, set[str]] = {name: set() for name in names}

    def note(node: ast.expr, how: str) -> None:
        if isinstance(node, ast.Name) and node.id in used:
            used[node.id].add(how)

    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.BinOp):
                note(node.left, "number")
                note(node.right, "number")
            elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
                note(node.operand, "number")
            elif isinstance(node, ast.Compare):
                for side in (node.left, *node.comparators):
                    note(side, "number")
            elif isinstance(node, ast.Subscript):
                note(node.value, "index")
            elif isinstance(node, ast.Attribute):
                if node.attr in REDUCTIONS or node.attr in ("shape", "size", "T", "copy"):
                    note(node.value, "array")
            elif isinstance(node, ast.Call):
                name = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
                if name in _COUNTED:
                    for arg in node.args if name in ("range", "arange") else node.args[:1]:
                        for part in arg.elts if isinstance(arg, ast.Tuple) else (arg,):
                            note(part, "count")
                elif name == "len" and node.args:
                    note(node.args[0], "index")
                elif (
                    isinstance(node.func, ast.Attribute)
                    and module_of(node.func.value, modules) == "numpy"
                ):
                    how = "number" if node.func.attr in ELEMENTWISE else "array"
                    for arg in node.args[:1]:
                        note(arg, how)
    return used
