"""Real code to try things on: short functions and classes of the standard library."""

import ast
import textwrap
from functools import cache
from pathlib import Path

FILES = sorted(Path(ast.__file__).parent.glob("[a-z]*.py"))


@cache
def pieces(limit=400, longest=4000):
    """Functions and classes in a fixed order, each as source from column 0, spread over files."""
    found = []
    for path in FILES:
        text = path.read_text(encoding="utf-8", errors="replace")
        tree = ast.parse(text)
        taken = 0
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                continue
            first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
            piece = "\n".join(text.split("\n")[first - 1 : node.end_lineno])
            if len(piece) <= longest and "EVOLVE" not in piece and taken < 6:
                taken += 1
                found.append(textwrap.dedent(piece))
    step = max(1, len(found) // limit)
    return tuple(found[::step][:limit])
