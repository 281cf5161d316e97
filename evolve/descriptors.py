"""Built-in behaviour descriptors: how a program is written, read off its text and its syntax tree.

Each is a pure function of the program, costs well under a millisecond for a program of a page and
never runs anything, so that a program's cell never depends on the day or on the machine. Axes
between such figures and what the program *does* are the task's own business: the judge returns
them.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable

from evolve.files import files_of

# A comment only where no string literal is open: strings come first in the alternation and win.
_STRING_OR_COMMENT = re.compile(
    r"(?P<string>'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\""
    r"|'(?:\\.|[^\\'\n])*'|\"(?:\\.|[^\\\"\n])*\")|#[^\n]*",
    re.DOTALL,
)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BRANCHES = (ast.If, ast.IfExp, *_LOOPS, ast.ExceptHandler, ast.Assert, ast.match_case)


def code_length(source: str, tree: ast.Module) -> float:
    """Return the number of characters without comments, blank lines and trailing blanks."""
    del tree
    code = _STRING_OR_COMMENT.sub(lambda match: match["string"] or "", source)
    return float(sum(len(line.rstrip()) for line in code.splitlines()))


def text_length(source: str) -> float:
    """Return the same as :func:`code_length` of a program that is not Python, comments counted."""
    files = files_of(source)
    return float(sum(len(line.rstrip()) for file in files for line in file.text.splitlines()))


def ast_nodes(source: str, tree: ast.Module) -> float:
    """Return log2 of the number of syntax nodes, docstrings left out."""
    del source
    nodes = sum(not isinstance(node, ast.expr_context) for node in ast.walk(tree))
    return math.log2(nodes - 2 * _docstrings(tree))


def cyclomatic(source: str, tree: ast.Module) -> float:
    """Return McCabe's number: 1 + decisions (branches, loops, ``and``/``or``, comprehensions).

    Source: T. J. McCabe, "A Complexity Measure", IEEE TSE 2 (1976), counted over the whole file.
    """
    del source
    decisions = 0
    for node in ast.walk(tree):
        if isinstance(node, _BRANCHES):
            decisions += 1
        elif isinstance(node, ast.BoolOp):
            decisions += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            decisions += 1 + len(node.ifs)
    return float(1 + decisions)


def loop_depth(source: str, tree: ast.Module) -> float:
    """Return the deepest nesting of loops; each ``for`` of a comprehension counts as one."""
    del source
    deepest = 0
    # A stack, not recursion: a long chain of operators nests deeper than Python's stack.
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if isinstance(node, _LOOPS):
            depth += 1
        elif isinstance(node, _COMPREHENSIONS):
            depth += len(node.generators)
        deepest = max(deepest, depth)
        todo.extend((child, depth) for child in ast.iter_child_nodes(node))
    return float(deepest)


def imports(source: str, tree: ast.Module) -> float:
    """Return the number of distinct modules that are imported."""
    del source
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return float(len(names))


def calls(source: str, tree: ast.Module) -> float:
    """Return the number of call expressions."""
    del source
    return float(sum(isinstance(node, ast.Call) for node in ast.walk(tree)))


def library_calls(source: str, tree: ast.Module) -> float:
    """Return the number of calls into imported modules, ``np.linalg.norm(x)`` for example."""
    del source
    imported: set[str] = set()
    called: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Call):
            function = node.func
            while isinstance(function, ast.Attribute):
                function = function.value
            if isinstance(function, ast.Name):
                called.append(function.id)
    return float(sum(name in imported for name in called))


def functions(source: str, tree: ast.Module) -> float:
    """Return the number of functions, lambdas included."""
    del source
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return float(sum(isinstance(node, kinds) for node in ast.walk(tree)))


def constants(source: str, tree: ast.Module) -> float:
    """Return the number of numeric literals."""
    del source
    return float(
        sum(
            isinstance(node, ast.Constant)
            and isinstance(node.value, int | float | complex)
            and not isinstance(node.value, bool)
            for node in ast.walk(tree)
        )
    )


#: Name -> ``measure(source, tree)``. A task names them in ``Descriptor``; evaluation measures.
BUILTIN: dict[str, Callable[[str, ast.Module], float]] = {
    measure.__name__: measure
    for measure in (
        code_length,
        ast_nodes,
        cyclomatic,
        loop_depth,
        imports,
        calls,
        library_calls,
        functions,
        constants,
    )
}


def _docstrings(tree: ast.Module) -> int:
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                count += isinstance(first.value.value, str)
    return count
