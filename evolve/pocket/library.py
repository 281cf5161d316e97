"""Functions from the Python code that every installation has, as text that nobody runs.

They teach the model what Python looks like far away from the numpy heuristics that
:mod:`evolve.pocket.invent` makes up. Taken are the standard library and the pure Python parts of
numpy, scipy and networkx, which the toolkit depends on anyway; tests are left out.
"""

from __future__ import annotations

import ast
import importlib.util
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from evolve.canonical import canonical_view
from evolve.program import ProgramError, check

START, END = "# EVOLVE-BLOCK-START", "# EVOLVE-BLOCK-END"
_PACKAGES = ("numpy", "scipy", "networkx")
# Tests are not code that anybody would evolve, the rest is generated, vendored or for Python 2.
_SKIPPED = frozenset(
    [
        *("test", "tests", "testing", "idlelib", "lib2to3", "site-packages", "turtledemo"),
        *("ensurepip", "pydoc_data", "encodings", "__pycache__", "f2py", "distutils", "_vendor"),
        *("array_api_compat", "array_api_extra", "array_api_strict", "cobyqa", "msilib"),
    ]
)


def as_program(lines: str, head: str = "") -> str:
    """Return a program whose only evolve block is ``lines``, with ``head`` above it."""
    return f"{head}{START}\n{lines.rstrip()}\n{END}\n"


def with_imports(lines: str, below: str = "") -> str:
    """Return a program of numpy heuristics: math is imported only where its text uses it.

    A view does not show imports, so an edit must not bring in a module that nothing shown uses.
    """
    head = "import math\n\n" if "math." in lines + below else ""
    return as_program(lines, f"{head}import numpy as np\n\n\n") + below


def library_programs(min_lines: int = 3, max_lines: int = 22) -> Iterator[str]:
    """Yield programs of one function each, file by file in order, no two with one fingerprint.

    Args:
        min_lines: Shortest function, in lines of the canonical view.
        max_lines: Longest.
    """
    seen: set[str] = set()
    for path in _files():
        try:
            text = path.read_text(encoding="utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (UnicodeDecodeError, SyntaxError, ValueError):
            continue  # a data file of somebody's test
        for source in _functions(tree):
            try:
                view = canonical_view(source)
                mark = check(source).fingerprint
            except (ProgramError, SyntaxError):
                continue  # a function about block markers, or one that only its module lets parse
            fits = min_lines <= len(view.lines) <= max_lines
            plain = max(map(len, view.lines), default=0) <= 110
            if fits and plain and view.names and mark not in seen:
                seen.add(mark)
                yield source


def _files() -> list[Path]:
    roots = [Path(sysconfig.get_paths()["stdlib"])]
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            roots.append(Path(next(iter(spec.submodule_search_locations))))
    return [
        path
        for root in roots
        for path in sorted(root.rglob("*.py"))
        if not _SKIPPED.intersection(path.relative_to(root).parts)
    ]


def _functions(tree: ast.Module) -> Iterator[str]:
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    scopes: list[ast.Module | ast.ClassDef] = [tree]
    scopes += [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for scope in scopes:
        for node in scope.body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
                continue
            node.decorator_list = []
            node.returns = None
            for arg in ast.walk(node.args):
                if isinstance(arg, ast.arg):
                    arg.annotation = None
            used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
            head = [
                ast.unparse(line)
                for line in imports
                if used & {alias.asname or alias.name.partition(".")[0] for alias in line.names}
            ]
            yield as_program(ast.unparse(node), "".join(f"{line}\n" for line in head))
