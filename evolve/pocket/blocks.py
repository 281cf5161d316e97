"""Made-up programs, one level up: statements, functions and whole programs of random pieces."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from evolve.pocket.invent import Draft, condition, constant
from evolve.pocket.library import with_imports

_SIGNS = ("+", "-", "*", "+")


def invented_program(rng: np.random.Generator) -> str:
    """Return a program of one or two functions; it may or may not run.

    The function to call is the first one of the evolve block.
    """
    main, helpers = "main", []
    outside, inside = "", ""
    if rng.random() < 0.3:
        kinds = "".join(rng.choice(list("aaf"), size=rng.integers(1, 4)))
        text, kind = _function(rng, "helper", kinds, [], short=True)
        helpers.append(("helper", kinds, kind))
        if rng.random() < 0.5:
            outside = f"\n\n{text}"
        else:
            inside = f"{text}\n"
    kinds = str(rng.choice(_SIGNATURES))
    text, _ = _function(rng, main, kinds, helpers, short=False)
    tree = ast.parse(text + "\n" + inside)
    while _without_unused(tree):
        pass
    return with_imports(ast.unparse(tree), outside)


def _without_unused(tree: ast.Module) -> bool:
    """Drop assignments to names that nothing reads; return whether there were any."""
    read = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    dropped = False
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if not isinstance(body, list):
                continue
            left = [statement for statement in body if not _is_unused(statement, read)]
            if len(left) < len(body):
                dropped = True
                body[:] = left or ([ast.Pass()] if name == "body" else [])
    return dropped


def _is_unused(statement: ast.stmt, read: set[str]) -> bool:
    if isinstance(statement, (ast.For, ast.While, ast.If)):
        return all(isinstance(inner, ast.Pass) for inner in statement.body) and not statement.orelse
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
    elif isinstance(statement, ast.AugAssign):
        target = statement.target
    else:
        return False
    return isinstance(target, ast.Name) and target.id not in read


#: Numbers of statements; formulas of a few lines need as much practice as long programs.
_LENGTHS = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16)
_SIGNATURES = (
    *("i", "i", "if", "iff", "a", "a", "af", "aff", "fa", "fa", "faf", "aa", "aa", "aaf", "aaa"),
    *("ff", "fff", "l", "lf", "li", "ai", "ia", "ial", "m", "mf", "ma", "la", "ll", "faa", "i"),
)


def _function(
    rng: np.random.Generator,
    name: str,
    kinds: str,
    helpers: list[tuple[str, str, str]],
    *,
    short: bool,
) -> tuple[str, str]:
    """Return the text of a function and the kind that it returns."""
    draft = Draft(rng, helpers=helpers)
    parameters = [draft.fresh(kind) for kind in kinds]
    if not short and rng.random() < 0.15:
        extra = draft.fresh("f")
        parameters.append(f"{extra}={constant(draft)}")
    lines: list[str] = []
    count = int(rng.integers(0, 3) if short else rng.choice(_LENGTHS))
    for _ in range(count):
        lines += _statement(draft, 0)
    result, kind = _result(draft, short)
    lines.append(f"return {result}")
    body = "\n".join(f"    {line}" for line in lines)
    return f"def {name}({', '.join(parameters)}):\n{body}\n", kind


def _result(draft: Draft, short: bool) -> tuple[str, str]:
    kinds = [kind for kind in "aafl" if draft.names[kind]] or ["f"]
    if not short and draft.chance(0.3):
        parts = [draft.expression(draft.one_of(kinds), 2) for _ in range(draft.rng.integers(2, 5))]
        brackets = draft.one_of(("()", "()", "[]"))
        return brackets[0] + ", ".join(parts) + brackets[1], "t"
    kind = draft.one_of(kinds)
    return draft.expression(kind, 1), kind


def _statement(draft: Draft, depth: int) -> list[str]:
    how = draft.pick(
        "s:new", "s:new2", "s:new3", "s:update", "s:update2", "s:plus", "s:item", "s:helper"
    )
    if depth < 2 and draft.chance(0.25 if depth == 0 else 0.12):
        how = draft.pick(*_COMPOUND)
        before = {kind: list(names) for kind, names in draft.names.items()}
        lines = _COMPOUND[how](draft, depth)
        draft.names = {
            # What a branch or loop binds may never be bound; what comes out of it is kept.
            kind: [name for name in names if name in before[kind] or name in draft.fixed_out]
            for kind, names in draft.names.items()
        }
        return lines
    if how in ("s:update", "s:update2", "s:plus"):
        kinds = [kind for kind in "aafm" if _assignable(draft, kind)]
        if kinds:
            return [_update(draft, draft.one_of(kinds), plus=how == "s:plus")]
    if how == "s:item" and _assignable(draft, "a"):
        name = draft.one_of(_assignable(draft, "a"))
        index = draft.one_of(draft.names["i"]) if draft.names["i"] else "0"
        forms: Sequence[str] = (
            "{0}[{1}] = {2}",
            "{0}[{1}] += {2}",
            "{0}[{3}] = {2}",
            "{0}[{1}] *= {2}",
        )
        if draft.chance(0.6):
            forms = forms[:2]
        value, mask = draft.expression("f", 1), draft.expression("b", 1)
        return [draft.one_of(forms).format(name, index, value, mask)]
    if how == "s:helper" and draft.helpers:
        name, takes, gives = draft.helpers[int(draft.rng.integers(len(draft.helpers)))]
        call = f"{name}({', '.join(draft.expression(kind, 2) for kind in takes)})"
        return [f"{draft.fresh(gives)} = {call}"]
    kind = draft.pick("a", "f", "b", "m", "l", "i")
    if kind in "bml" and draft.chance(0.5):
        kind = draft.one_of("af")
    text = draft.expression(kind)
    if text.isidentifier():
        text = draft.expression(kind, 0)
    return [f"{draft.fresh(kind)} = {text}"]


def _assignable(draft: Draft, kind: str) -> list[str]:
    return [name for name in draft.names[kind] if name not in draft.fixed]


def _update(draft: Draft, kind: str, *, plus: bool) -> str:
    name = draft.one_of(_assignable(draft, kind))
    small = f"{constant(draft)} * " if draft.chance(0.4) else ""
    text = draft.expression(kind, 1)
    if plus:
        return f"{name} {draft.one_of(('+', '-', '*', '+'))}= {small}{text}"
    if draft.chance(0.35):
        return f"{name} = {draft.expression(kind)}"
    return f"{name} = {name} {draft.one_of(_SIGNS)} {small}{text}"


def _body(draft: Draft, depth: int, most: int) -> list[str]:
    lines: list[str] = []
    for _ in range(int(draft.rng.integers(1, most + 1))):
        lines += _statement(draft, depth + 1)
    return [f"    {line}" for line in lines]


def _for(draft: Draft, depth: int) -> list[str]:
    counter = draft.fresh("i")
    draft.fixed.add(counter)
    array = draft.names["a"]
    count = str(int(draft.rng.choice([3, 4, 5, 8, 10, 20, 30])))
    if array and draft.chance(0.4):
        count = f"len({draft.one_of(array)})"
    elif len(draft.names["i"]) > 1 and draft.chance(0.5):
        count = draft.one_of(draft.names["i"][:-1])
    if draft.chance(0.15):
        count = f"1, {count}"
    most = 8 if draft.chance(0.3) else 4
    return [f"for {counter} in range({count}):", *_body(draft, depth, most)]


def _each(draft: Draft, depth: int) -> list[str]:
    source = (draft.names["l"] or draft.names["a"] or ["[1.0, 2.0, 3.0]"])[-1]
    item = draft.fresh("f")
    draft.fixed.add(item)
    total = f"f{draft.count + 1}"
    head = [f"{total} = {constant(draft)}"]
    draft.fresh("f")
    draft.fixed_out.add(total)
    if draft.chance(0.4):
        counter = draft.fresh("i")
        draft.fixed.add(counter)
        loop = f"for {counter}, {item} in enumerate({source}):"
    elif len(draft.names["a"]) > 1 and draft.chance(0.3):
        other = draft.fresh("f")
        loop = f"for {item}, {other} in zip({draft.names['a'][-1]}, {draft.names['a'][-2]}):"
    else:
        loop = f"for {item} in {source}:"
    inner = _body(draft, depth, 2)
    inner.append(f"    {total} {draft.one_of(('+', '-', '+'))}= {draft.expression('f', 1)}")
    return [*head, loop, *inner]


def _if(draft: Draft, depth: int) -> list[str]:
    lines = [f"if {condition(draft)}:", *_body(draft, depth, 2)]
    if draft.chance(0.2):
        lines += [f"elif {condition(draft)}:", *_body(draft, depth, 1)]
    if draft.chance(0.4):
        lines += ["else:", *_body(draft, depth, 2)]
    return lines


def _guard(draft: Draft, depth: int) -> list[str]:
    del depth
    kind = "a" if draft.names["a"] else "f"
    value = draft.one_of(draft.names[kind]) if draft.names[kind] else constant(draft)
    return [f"if {condition(draft)}:", f"    return {value}"]


def _collect(draft: Draft, depth: int) -> list[str]:
    values = draft.fresh("l")
    draft.fixed_out.add(values)
    loop, *inner = _for(draft, depth)
    if draft.chance(0.3):
        inner.append(f"    if {condition(draft, 1)}:")
        inner.append(f"        {values}.append({draft.expression('f', 1)})")
    else:
        inner.append(f"    {values}.append({draft.expression('f')})")
    return [f"{values} = []", loop, *inner]


def _while(draft: Draft, depth: int) -> list[str]:
    counter = draft.fresh("i")
    draft.fixed_out.add(counter)
    limit = str(int(draft.rng.integers(4, 30)))
    extra = f" and {condition(draft, 1)}" if draft.chance(0.5) else ""
    draft.fixed.add(counter)
    inner = _body(draft, depth, 3)
    return [f"{counter} = 0", f"while {counter} < {limit}{extra}:", *inner, f"    {counter} += 1"]


_COMPOUND = {
    "s:for": _for,
    "s:if": _if,
    "s:collect": _collect,
    "s:while": _while,
    "s:guard": _guard,
    "s:each": _each,
}
