"""Scopes of a program that is being spelt out as tokens: which name belongs where.

Where a name stands is noted when it is met. When a scope closes, the names that it binds are
numbered in order of appearance, and the others move out. So the names of locals leave no trace.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal["module", "class", "function", "comprehension"]

#: A program that calls one of these can see the names of its locals.
_SEES_NAMES = frozenset(("locals", "vars", "eval", "exec", "dir"))


class Scope:
    """A scope: where names stand in the tokens, and which it binds or declares."""

    __slots__ = ("bound", "globals", "kind", "nonlocals", "number", "parent", "uses")

    def __init__(
        self,
        kind: Kind,
        parent: Scope | None,
        number: int,
    ) -> None:
        self.kind = kind
        self.parent = parent
        self.number = number
        self.uses: list[int] = []
        self.bound: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()


class Walk:
    """A walk through one statement: the tokens so far and the scope that is open."""

    __slots__ = ("count", "keywords", "loops", "module", "out", "parameters", "scope", "star")

    def __init__(self) -> None:
        self.out: list[str] = []
        self.module = self.scope = Scope("module", None, 0)
        self.count = 0
        self.loops = 0
        self.parameters: list[str] = []
        self.keywords: set[str] = set()
        self.star = False


def enter(walk: Walk, kind: Kind) -> None:
    """Open a scope."""
    walk.count += 1
    walk.scope = Scope(kind, walk.scope, walk.count)


def leave(walk: Walk) -> None:
    """Close a scope: number the names that it binds, hand the others out."""
    scope, out = walk.scope, walk.out
    parent = scope.parent
    assert parent is not None
    walk.scope = outer = parent
    # What a class binds is invisible to the functions in it.
    while outer.kind == "class" and outer.parent is not None:
        outer = outer.parent
    bound, module = scope.bound, walk.module
    if scope.globals:
        module.bound |= bound & scope.globals
    if scope.globals or scope.nonlocals:
        bound = bound - scope.globals - scope.nonlocals
    local, sees_names = [], False
    for position in scope.uses:
        name = out[position]
        if name in bound:
            local.append(position)
        elif name in scope.globals:
            module.uses.append(position)
        else:
            outer.uses.append(position)
            sees_names = sees_names or name in _SEES_NAMES
    if scope.kind == "class" or sees_names:
        return
    order: dict[str, str] = {}
    for position in local:
        name = out[position]
        token = order.get(name)
        if token is None:
            token = order[name] = f"\x01{scope.number}.{len(order)}"
        out[position] = token


def bind(walk: Walk, name: str) -> None:
    """Write a name that the open scope binds."""
    scope = walk.scope
    scope.uses.append(len(walk.out))
    walk.out.append(name)
    scope.bound.add(name)
