"""Made-up heuristics: typed random programs over scalars, arrays, masks, matrices and lists.

Every function of this module draws one piece of text; names tell the kind of what they return. A
program draws a style first, that is which productions it favours, so that programs differ more from
each other than lines of one program do. Nothing guarantees that a program runs: whoever uses one
runs it first (:mod:`evolve.pocket.trials`).

Kinds: ``f`` float, ``i`` int, ``a`` array (n,), ``b`` mask (n,), ``m`` matrix (n, n), ``l`` list of
floats. The first letter of a parameter's name tells the kind of its input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from evolve.pocket import forms

_MAX_DEPTH = 3
_KINDS = "fiabml"
_UNARY = ("np.abs({0})", "np.tanh({0})", "np.sin({0})", "np.cos({0})", "np.square({0})", "-{0}")
_REDUCE = ("sum", "mean", "max", "min", "std", "median", "var", "ptp", "prod", "argmax", "argmin")
_RARELY = frozenset(("prod", "argmax", "argmin", "ptp", "var"))
_COMPARE = ("<", ">", "<=", ">=")


@dataclass
class Draft:
    """A program being written.

    Attributes:
        rng: Source of every draw.
        names: Kind -> names in scope.
        style: Production -> weight, drawn once for each program.
        fixed: Names that must not be assigned, such as loop counters.
        fixed_out: Names bound before a loop that stay bound after it.
        helpers: Functions that the program may call: (name, kinds of parameters, kind).
        count: Names given out so far.
    """

    rng: np.random.Generator
    names: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    style: dict[str, float] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    fixed_out: set[str] = field(default_factory=set)
    helpers: list[tuple[str, str, str]] = field(default_factory=list)
    count: int = 0

    def fresh(self, kind: str) -> str:
        """Return a new name and put it in scope."""
        self.count += 1
        name = f"{kind}{self.count}"
        self.names[kind].append(name)
        return name

    def chance(self, share: float) -> bool:
        """Return True in this share of the calls."""
        return bool(self.rng.random() < share)

    def one_of(self, items: Sequence[str]) -> str:
        """Return one of the items, each as likely."""
        return items[int(self.rng.integers(len(items)))]

    def pick(self, *options: str) -> str:
        """Return one of the productions by the style of this program."""
        for option in options:
            if option not in self.style:
                self.style[option] = float(self.rng.gamma(0.6))
        weights = np.array([self.style[option] + 0.02 for option in options])
        return options[int(np.searchsorted(np.cumsum(weights), self.rng.random() * weights.sum()))]

    def expression(self, kind: str, depth: int = 0) -> str:
        """Return an expression of a kind."""
        return _EXPRESSIONS[kind](self, depth)


def constant(draft: Draft) -> str:
    """Return a number as people write them."""
    rng = draft.rng
    pick = rng.integers(6)
    if pick == 0:
        return str(int(rng.integers(0, 4)))
    if pick == 1:
        return str(round(float(rng.uniform(0, 1)), int(rng.integers(1, 4))))
    if pick == 2:
        return str(float(rng.integers(1, 11)))
    if pick == 3:
        return draft.one_of(("0.5", "0.1", "0.01", "1e-06", "1.5", "0.25", "1e-09", "0.05", "0.9"))
    if pick == 4:
        return str(int(rng.integers(2, 13)))
    return str(round(float(rng.uniform(0, 4)), int(rng.integers(1, 3))))


def _known(draft: Draft, kind: str) -> str | None:
    # The latest names are what a line is usually about.
    names = draft.names[kind]
    if not names:
        return None
    return names[-1 - min(len(names) - 1, int(draft.rng.geometric(0.35)) - 1)]


def _float(draft: Draft, depth: int) -> str:
    name = _known(draft, "f") or _known(draft, "i")
    if depth >= _MAX_DEPTH or draft.chance(0.3):
        return name if name and draft.chance(0.7) else constant(draft)
    how = draft.pick("f:op", "f:op2", "f:reduce", "f:call", "f:item", "f:len", "f:dot", "f:list")
    array = draft.names["a"]
    if how == "f:reduce" and (array or draft.names["m"]):
        what = draft.one_of(_REDUCE)
        if what in _RARELY and draft.chance(0.6):
            what = "sum"
        inner = draft.expression("m" if draft.names["m"] and draft.chance(0.2) else "a", depth + 1)
        return f"np.{what}({inner})"
    if how == "f:item" and array:
        index = _known(draft, "i") if draft.names["i"] and draft.chance(0.6) else None
        return f"{_known(draft, 'a')}[{index or draft.one_of(('0', '-1', '1', '-2'))}]"
    if how == "f:len" and (array or draft.names["l"]):
        return f"len({_known(draft, 'a') or _known(draft, 'l')})"
    if how == "f:dot" and array:
        left, right = draft.expression("a", depth + 2), draft.expression("a", depth + 2)
        return "(" + draft.one_of(forms.DOTS).format(left, right) + ")"
    if how == "f:list" and draft.names["l"]:
        values = _known(draft, "l")
        return draft.one_of(forms.OF_LISTS).format(values)
    left, right = _float(draft, depth + 1), _float(draft, depth + 1)
    if how == "f:call":
        return draft.one_of(forms.SCALAR).format(left, right, condition(draft, depth + 1))
    return _operation(draft, left, right)


def _operation(draft: Draft, left: str, right: str) -> str:
    sign = draft.one_of("++--**/")
    if sign == "/" and not right.replace(".", "").isdigit():
        right = draft.one_of(("({0} + 1e-09)", "(1 + abs({0}))", "(abs({0}) + 0.1)", "{0}")).format(
            right
        )
    if draft.chance(0.03):
        sign = draft.one_of(("%", "//"))
    return f"({left} {sign} {right})"


def condition(draft: Draft, depth: int = 0) -> str:
    """Return an expression that is true or false."""
    if draft.names["i"] and draft.chance(0.3):
        name = _known(draft, "i")
        count = int(draft.rng.integers(2, 6))
        return draft.one_of((f"{name} % {count} == 0", f"{name} > {count}", f"{name} < {count}"))
    if draft.names["b"] and draft.chance(0.3):
        return f"np.{draft.one_of(('any', 'all'))}({_known(draft, 'b')})"
    left = draft.expression("f", max(1, depth + 1))
    text = f"{left} {draft.one_of(_COMPARE)} {draft.expression('f', depth + 2)}"
    if depth < 2 and draft.chance(0.12):
        return f"({text} {draft.one_of(('and', 'or'))} {condition(draft, depth + 2)})"
    return text


def _int(draft: Draft, depth: int) -> str:
    del depth
    if draft.names["i"] and draft.chance(0.5):
        return str(_known(draft, "i"))
    if draft.names["a"] and draft.chance(0.5):
        of_arrays = ("len({0})", "len({0}) // 2", "np.argmax({0})", "np.argmin({0})", "{0}.size")
        return draft.one_of(of_arrays).format(_known(draft, "a"))
    return str(int(draft.rng.integers(1, 9)))


def _array(draft: Draft, depth: int) -> str:
    name = _known(draft, "a")
    if name is None:
        count = _known(draft, "i") or "8"
        return f"({draft.one_of(forms.NEW_ARRAYS).format(count, constant(draft))})"
    if depth >= _MAX_DEPTH or draft.chance(0.22):
        return name
    how = draft.pick(
        *("a:op", "a:op2", "a:scalar", "a:unary", "a:guarded", "a:where", "a:clip", "a:order"),
        *("a:like", "a:scale", "a:matrix", "a:bound", "a:power", "a:shift", "a:count"),
    )
    inner = draft.expression("a", depth + 1)
    if how == "a:scalar":
        pair = [inner, draft.expression("f", depth + 2)]
        return _operation(draft, *(pair if draft.chance(0.7) else pair[::-1]))
    if how == "a:unary":
        return draft.one_of(_UNARY).format(inner)
    if how == "a:guarded":
        return "(" + draft.one_of(forms.GUARDED).format(inner) + ")"
    if how == "a:where":
        sides = [draft.expression(draft.one_of("aff"), depth + 2) for _ in range(2)]
        if draft.chance(0.5):
            sides[0] = inner
        return f"np.where({draft.expression('b', depth + 1)}, {sides[0]}, {sides[1]})"
    if how == "a:clip":
        return f"np.clip({inner}, {draft.one_of(('0', '0.1', '-1', '1e-06'))}, {constant(draft)})"
    if how == "a:order":
        return draft.one_of(forms.ORDERS).format(inner, name)
    if how == "a:like":
        return "(" + draft.one_of(forms.LIKE).format(name, draft.expression("f", 2)) + ")"
    if how == "a:scale":
        return f"({draft.one_of(forms.SCALES).format(name)})"
    if how == "a:matrix" and draft.names["m"]:
        matrix = draft.expression("m", depth + 1)
        what = draft.one_of(("sum", "max", "min", "mean", "sum"))
        return f"({draft.one_of(forms.REDUCED).format(matrix, what, name)})"
    if how == "a:bound":
        what = draft.one_of(("maximum", "minimum"))
        return f"np.{what}({inner}, {draft.expression(draft.one_of('af'), depth + 2)})"
    if how == "a:power":
        return f"{name} ** {draft.one_of(('2', '2', '3', '0.5', '1.5'))}"
    if how == "a:shift":
        return draft.one_of(forms.SHIFTS).format(inner)
    if how == "a:count":
        return f"({draft.expression('b', depth + 1)}).astype(float)"
    return _operation(draft, inner, draft.expression("a", depth + 1))


def _mask(draft: Draft, depth: int) -> str:
    name = _known(draft, "b")
    if name and draft.chance(0.3):
        return name
    left = draft.expression("a", depth + 1)
    pick = draft.rng.integers(8)
    if pick == 0:
        return f"({left} == {draft.one_of(('np.max({0})', 'np.min({0})', '{0}[0]')).format(left)})"
    if pick == 1 and depth < 2:
        return f"({_mask(draft, depth + 1)} {draft.one_of('&|')} {_mask(draft, depth + 1)})"
    right = draft.expression(draft.one_of("afff"), depth + 2)
    return f"({left} {draft.one_of(_COMPARE)} {right})"


def _matrix(draft: Draft, depth: int) -> str:
    name = _known(draft, "m")
    if name and (depth >= _MAX_DEPTH - 1 or draft.chance(0.4)):
        return name
    left, right = _known(draft, "a") or _array(draft, 2), _known(draft, "a") or _array(draft, 2)
    if name is None or draft.chance(0.3):
        return f"({draft.one_of(forms.NEW_MATRICES).format(left, right)})"
    other = draft.expression("m", depth + 1)
    filled = draft.one_of(forms.MATRICES).format(
        name, other, constant(draft), draft.one_of(("1", "0.1"))
    )
    return f"({filled})"


def _list(draft: Draft, depth: int) -> str:
    if draft.names["l"] and draft.chance(0.35):
        return str(_known(draft, "l"))
    item = draft.fresh("f")
    draft.fixed.add(item)
    array = _known(draft, "l") or _known(draft, "a")
    counter = array is None or draft.chance(0.3)
    if counter:
        source = f"range({_known(draft, 'i') or (f'len({array})' if array else '6')})"
    else:
        source = str(array)
    body = draft.expression("f", max(1, depth))
    if item not in body:
        body = f"{item} {draft.one_of('+-*')} {body}"
    tail = f" if {item} {draft.one_of(_COMPARE)} {constant(draft)}" if draft.chance(0.15) else ""
    draft.names["f"].remove(item)
    form = draft.one_of(("[{0} for {1} in {2}{3}]", "sorted(({0} for {1} in {2}{3}))"))
    if draft.chance(0.5):
        form = "[{0} for {1} in {2}{3}]"
    return form.format(body, item, source, tail)


_EXPRESSIONS: dict[str, Callable[[Draft, int], str]] = {
    "f": _float,
    "i": _int,
    "a": _array,
    "b": _mask,
    "m": _matrix,
    "l": _list,
}
