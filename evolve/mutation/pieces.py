"""What the operators are made of: draws, pieces of programs, and the usual numbers."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from evolve.mutation.sites import Site
from evolve.mutation.survey import Donor, Sites

T = TypeVar("T")

FACTORS = (0.5, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 0.1, 10.0)
COMMON = (0.0, 0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
SMALL = (0.01, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0)
COMPARISONS: tuple[type[ast.cmpop], ...] = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
# What may stand for a name or value of a kind where shapes must fit.
STANDS_FOR = {"f": "fi", "i": "i", "n": "nf", "a": "a", "b": "b", "m": "m", "l": "l"}
BROADCASTS = {"f": "fi", "i": "i", "n": "nfi", "a": "anfi", "b": "b", "m": "mb", "?": "f"}


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


def number(value: float) -> ast.expr:
    """Return the expression for a number, rounded to three digits."""
    if isinstance(value, float):
        value = float(f"{value:.3g}")
    if value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def binary(left: ast.expr, op: type[ast.operator], right: ast.expr) -> ast.expr:
    """Return ``left op right``."""
    return ast.BinOp(left, op(), right)


def call(module: str | None, name: str, *args: ast.expr) -> ast.expr:
    """Return a call of a builtin (``module`` None) or of a function of a module."""
    func = ast.Name(name) if module is None else ast.Attribute(ast.Name(module), name)
    return ast.Call(func, list(args), [])


def compare(left: ast.expr, op: type[ast.cmpop], right: ast.expr) -> ast.expr:
    """Return ``left op right``."""
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
        fitting = [other for other, k in env.items() if k in STANDS_FOR.get(kind, "")]
        if fitting:
            names[name] = draws.pick(fitting)
        elif not own or env.get(name) != kind:
            return None
    # Always a copy: the donor may hold the very site it goes to.
    copy: ast.expr = clone(donor.node, names)
    return copy


def foreign(known: Known, site: Site, kinds: str, draws: Draws, *, own: bool) -> ast.expr | None:
    """Return a piece of the program, or of an inspiration, that fits a site, or None."""
    source = known.program.donors if own else draws.pick(known.inspirations)
    donors = [donor for kind in kinds for donor in source.get(kind, ())]
    return adopt(draws.pick(donors), site.env, draws, known, own=own) if donors else None
