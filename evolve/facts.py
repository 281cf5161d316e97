"""What one statement means, names aside: its digest, what it needs and what it provides.

A single pass over the tree spells the statement out as tokens. Formatting, comments, docstrings,
``pass`` and the names of locals leave no trace in them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

from evolve.scopes import Walk, bind, enter, leave

_SKIPPED = frozenset(("ctx", "kind", "type_comment", "type_ignores"))


class Facts(NamedTuple):
    """A statement of the module level.

    Attributes:
        digest: 16 bytes, or none for a statement without effect.
        parameters: Names of all parameters in order; their renaming shows in calls by keyword.
        keywords: Names used in calls by keyword.
        free: Names that it loads and does not bind itself in an inner scope.
        bound: Names that it binds at the module level.
        star: Whether it imports ``*``, so that it may bind anything.
    """

    digest: bytes
    parameters: tuple[str, ...]
    keywords: frozenset[str]
    free: frozenset[str]
    bound: frozenset[str]
    star: bool


_Handler = Callable[[Walk, Any], None]


def facts_of(statement: ast.stmt) -> Facts:
    """Return the facts of a statement of the module level.

    Raises:
        SyntaxError: If it holds a ``return``, ``yield``, ``break`` or the like in a wrong place,
            which the parser does not see.
        RecursionError: If it is nested too deeply.
    """
    walk = Walk()
    _HANDLERS[statement.__class__](walk, statement)
    out, module = walk.out, walk.module
    text = "\n".join(out).encode("utf-8", "surrogatepass")
    return Facts(
        blake2b(text, digest_size=16).digest() if out else b"",
        tuple(walk.parameters),
        frozenset(walk.keywords),
        frozenset([out[position] for position in module.uses]),
        frozenset(module.bound),
        walk.star,
    )


def _visit_all(walk: Walk, nodes: list[Any]) -> None:
    for node in nodes:
        if node is None:
            walk.out.append("-")
        else:
            _HANDLERS[node.__class__](walk, node)
    walk.out.append(")")


def _visit_maybe(walk: Walk, node: ast.AST | None) -> None:
    if node is None:
        walk.out.append("-")
    else:
        _HANDLERS[node.__class__](walk, node)


def _generic(cls: type[ast.AST]) -> _Handler:
    tag = f"<{cls.__name__}"
    fields = tuple(field for field in cls._fields if field not in _SKIPPED)

    def handle(walk: Walk, node: ast.AST) -> None:
        out = walk.out
        out.append(tag)
        for field in fields:
            value = getattr(node, field, None)
            if value.__class__ is list:
                for item in value:
                    if item is None:
                        out.append("-")
                    elif item.__class__ is str:
                        out.append("." + item)
                    else:
                        _HANDLERS[item.__class__](walk, item)
                out.append(")")
            elif value is None:
                out.append("-")
            elif isinstance(value, ast.AST):
                _HANDLERS[value.__class__](walk, value)
            else:
                out.append(repr(value))

    return handle


def _name(walk: Walk, node: ast.Name) -> None:
    out, name = walk.out, node.id
    walk.scope.uses.append(len(out))
    out.append(name)
    if node.ctx.__class__ is not ast.Load:
        walk.scope.bound.add(name)


def _constant(walk: Walk, node: ast.Constant) -> None:
    walk.out.append("=" + repr(node.value))


def _attribute(walk: Walk, node: ast.Attribute) -> None:
    walk.out.append("." + node.attr)
    value = node.value
    _HANDLERS[value.__class__](walk, value)


def _binop(walk: Walk, node: ast.BinOp) -> None:
    walk.out.append("<B" + node.op.__class__.__name__)
    left, right = node.left, node.right
    _HANDLERS[left.__class__](walk, left)
    _HANDLERS[right.__class__](walk, right)


def _call(walk: Walk, node: ast.Call) -> None:
    out = walk.out
    out.append("<Call")
    func = node.func
    _HANDLERS[func.__class__](walk, func)
    for arg in node.args:
        _HANDLERS[arg.__class__](walk, arg)
    out.append(")")
    for keyword in node.keywords:
        _keyword(walk, keyword)
    out.append(")")


def _keyword(walk: Walk, node: ast.keyword) -> None:
    if node.arg is None:
        walk.out.append("**")
    else:
        walk.out.append("." + node.arg)
        walk.keywords.add(node.arg)
    _HANDLERS[node.value.__class__](walk, node.value)


def _subscript(walk: Walk, node: ast.Subscript) -> None:
    walk.out.append("[")
    _HANDLERS[node.value.__class__](walk, node.value)
    _HANDLERS[node.slice.__class__](walk, node.slice)


def _assign(walk: Walk, node: ast.Assign) -> None:
    walk.out.append("<Assign")
    for target in node.targets:
        _HANDLERS[target.__class__](walk, target)
    walk.out.append(")")
    _HANDLERS[node.value.__class__](walk, node.value)


def _expr(walk: Walk, node: ast.Expr) -> None:
    value = node.value
    if value.__class__ is not ast.Constant:
        walk.out.append("<Expr")
        _HANDLERS[value.__class__](walk, value)


def _pass(walk: Walk, node: ast.Pass) -> None:
    del walk, node


def _named_expr(walk: Walk, node: ast.NamedExpr) -> None:
    # A comprehension leaves its walrus to the function around it.
    scope = walk.scope
    walk.out.append("<Walrus")
    walk.scope.uses.append(len(walk.out))
    walk.out.append(node.target.id)
    while scope.kind == "comprehension" and scope.parent is not None:
        scope = scope.parent
    scope.bound.add(node.target.id)
    _HANDLERS[node.value.__class__](walk, node.value)


def _function(walk: Walk, node: Any) -> None:
    """Handle def, async def and lambda."""
    out, loops = walk.out, walk.loops
    out.append(f"<{node.__class__.__name__}")
    arguments = node.args
    _visit_all(walk, arguments.defaults)
    _visit_all(walk, arguments.kw_defaults)
    whole = node.__class__ is not ast.Lambda
    if whole:
        _visit_all(walk, node.decorator_list)
        bind(walk, node.name)
    # Type parameters (3.12) are in scope in annotations, names bound in the body are not.
    generic = bool(getattr(node, "type_params", None))
    everything = [
        *arguments.posonlyargs,
        *arguments.args,
        *([arguments.vararg] if arguments.vararg else ()),
        *arguments.kwonlyargs,
        *([arguments.kwarg] if arguments.kwarg else ()),
    ]
    if not generic:
        _annotations(walk, node, everything)
    enter(walk, "function")
    walk.loops = 0
    if generic:
        _visit_all(walk, node.type_params)
        _annotations(walk, node, everything)
    out.append(
        f"{len(arguments.posonlyargs)},{len(arguments.args)},{len(arguments.kwonlyargs)},"
        f"{arguments.vararg is not None},{arguments.kwarg is not None}"
    )
    for arg in everything:
        if arg.arg in walk.scope.bound:
            raise SyntaxError(f"duplicate argument '{arg.arg}'", ("", arg.lineno, None, None))
        bind(walk, arg.arg)
    walk.parameters.extend([arg.arg for arg in everything])
    if whole:
        _visit_all(walk, node.body)
    else:
        _HANDLERS[node.body.__class__](walk, node.body)
    leave(walk)
    walk.loops = loops


def _annotations(walk: Walk, node: Any, arguments: list[ast.arg]) -> None:
    if node.__class__ is not ast.Lambda:
        for arg in arguments:
            _visit_maybe(walk, arg.annotation)
        _visit_maybe(walk, node.returns)


def _class(walk: Walk, node: ast.ClassDef) -> None:
    loops = walk.loops
    walk.out.append("<Class")
    _visit_all(walk, node.decorator_list)
    bind(walk, node.name)
    _visit_all(walk, node.bases)
    _visit_all(walk, node.keywords)
    enter(walk, "class")
    walk.loops = 0
    _visit_all(walk, getattr(node, "type_params", []))
    _visit_all(walk, node.body)
    leave(walk)
    walk.loops = loops


def _comprehension(walk: Walk, node: Any) -> None:
    walk.out.append(f"<{node.__class__.__name__}")
    first = node.generators[0].iter
    _HANDLERS[first.__class__](walk, first)
    enter(walk, "comprehension")
    for generator in node.generators:
        walk.out.append("async for" if generator.is_async else "for")
        _HANDLERS[generator.target.__class__](walk, generator.target)
        if generator.iter is not first:
            _HANDLERS[generator.iter.__class__](walk, generator.iter)
        _visit_all(walk, generator.ifs)
    if node.__class__ is ast.DictComp:
        _HANDLERS[node.key.__class__](walk, node.key)
        _HANDLERS[node.value.__class__](walk, node.value)
    else:
        _HANDLERS[node.elt.__class__](walk, node.elt)
    leave(walk)


def _loop(walk: Walk, node: Any) -> None:
    walk.out.append(f"<{node.__class__.__name__}")
    if node.__class__ is ast.While:
        _HANDLERS[node.test.__class__](walk, node.test)
    else:
        _HANDLERS[node.target.__class__](walk, node.target)
        _HANDLERS[node.iter.__class__](walk, node.iter)
    walk.loops += 1
    _visit_all(walk, node.body)
    walk.loops -= 1
    _visit_all(walk, node.orelse)


def _jump(walk: Walk, node: ast.Break | ast.Continue) -> None:
    word = node.__class__.__name__.lower()
    if not walk.loops:
        raise SyntaxError(f"'{word}' outside loop", ("", node.lineno, None, None))
    walk.out.append(word)


def _in_function(handle: _Handler) -> _Handler:
    def checked(walk: Walk, node: Any) -> None:
        if walk.scope.kind in ("module", "class"):
            word = node.__class__.__name__.lower()
            raise SyntaxError(f"'{word}' outside function", ("", node.lineno, None, None))
        handle(walk, node)

    return checked


def _import(walk: Walk, node: Any) -> None:
    walk.out.append(f"<{node.__class__.__name__}")
    whole = node.__class__ is ast.Import
    if not whole:
        walk.out.append(f"{'.' * (node.level or 0)}{node.module or ''}")
    for alias in node.names:
        walk.out.append("." + alias.name)
        if alias.name == "*":
            walk.star = True
        elif alias.asname:
            bind(walk, alias.asname)
        else:
            bind(walk, alias.name.partition(".")[0] if whole else alias.name)
    walk.out.append(")")


def _declaration(walk: Walk, node: ast.Global | ast.Nonlocal) -> None:
    scope = walk.scope
    if node.__class__ is ast.Global:
        scope.globals.update(node.names)
    elif scope.kind == "module":
        raise SyntaxError("nonlocal at module level", ("", node.lineno, None, None))
    else:
        scope.nonlocals.update(node.names)
    walk.out.append(f"<{node.__class__.__name__}")
    for name in node.names:
        scope.uses.append(len(walk.out))
        walk.out.append(name)
    walk.out.append(")")


def _named(field: str) -> Callable[[type[ast.AST]], _Handler]:
    """Return a handler maker for nodes that bind the name in ``field``, if there is one."""

    def make(cls: type[ast.AST]) -> _Handler:
        tag = f"<{cls.__name__}"
        others = [name for name in cls._fields if name != field]

        def handle(walk: Walk, node: ast.AST) -> None:
            walk.out.append(tag)
            name = getattr(node, field)
            if name is None:
                walk.out.append("-")
            else:
                bind(walk, name)
            for other in others:
                value = getattr(node, other, None)
                if isinstance(value, list):
                    _visit_all(walk, value)
                else:
                    _visit_maybe(walk, value)

        return handle

    return make


def _handlers() -> dict[type[ast.AST], _Handler]:
    table: dict[type[ast.AST], _Handler] = {}
    for value in vars(ast).values():
        if isinstance(value, type) and issubclass(value, ast.AST):
            table[value] = _generic(value)
    for cls, make in (
        (ast.ExceptHandler, _named("name")),
        (ast.MatchAs, _named("name")),
        (ast.MatchStar, _named("name")),
        (ast.MatchMapping, _named("rest")),
    ):
        table[cls] = make(cls)
    for name in ("TypeVar", "ParamSpec", "TypeVarTuple"):  # Python 3.12
        if hasattr(ast, name):
            table[getattr(ast, name)] = _named("name")(getattr(ast, name))
    table |= {
        ast.Name: _name,
        ast.Constant: _constant,
        ast.Attribute: _attribute,
        ast.BinOp: _binop,
        ast.Call: _call,
        ast.keyword: _keyword,
        ast.Subscript: _subscript,
        ast.Assign: _assign,
        ast.Expr: _expr,
        ast.Pass: _pass,
        ast.NamedExpr: _named_expr,
        ast.FunctionDef: _function,
        ast.AsyncFunctionDef: _function,
        ast.Lambda: _function,
        ast.ClassDef: _class,
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.DictComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.For: _loop,
        ast.AsyncFor: _loop,
        ast.While: _loop,
        ast.Break: _jump,
        ast.Continue: _jump,
        ast.Return: _in_function(table[ast.Return]),
        ast.Yield: _in_function(table[ast.Yield]),
        ast.YieldFrom: _in_function(table[ast.YieldFrom]),
        ast.Import: _import,
        ast.ImportFrom: _import,
        ast.Global: _declaration,
        ast.Nonlocal: _declaration,
    }
    return table


_HANDLERS = _handlers()
