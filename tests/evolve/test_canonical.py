"""The canonical view and the way back, on worked examples and on the standard library."""

import ast
import builtins
import re

import pytest

from evolve.canonical import canonical_view, raw_view, restore, to_source
from evolve.program import ProgramError, check, fingerprint, split_blocks
from tests.evolve.standard_library import pieces


def program(block, before="import math\n", after=""):
    return f"{before}# EVOLVE-BLOCK-START\n{block}\n# EVOLVE-BLOCK-END\n{after}"


SCORE = program(
    '''
def score(item, bins, *, width=3):
    """Doc."""
    left = bins - item   # what is left
    total = sum(
        math.sqrt(abs(x)) for x in left
    )
    return helper(total, width=width).size
''',
    after="def helper(total, width):\n    return total\n",
)


def test_a_view_has_one_statement_a_line_and_names_of_one_alphabet():
    view = canonical_view(SCORE)
    assert view.lines == (
        "def v0(v1, v2, *, v3=3):",
        "    v4 = v2 - v1",
        "    v5 = sum((math.sqrt(abs(v6)) for v6 in v4))",
        "    return v7(v5, width=v3).size",
    )
    assert view.names == {
        "v0": "score",
        "v1": "item",
        "v2": "bins",
        "v3": "width",
        "v4": "left",
        "v5": "total",
        "v6": "x",
        "v7": "helper",
    }
    assert view.counts == (4,)


def test_edited_lines_come_back_with_the_names_of_the_program():
    view = canonical_view(SCORE)
    lines = [*view.lines[:3], "    v8 = v5 * v3", "    return v7(v8, width=v3).size"]
    source = restore(view, [lines])
    assert "    v8 = total * width\n    return helper(v8, width=width).size\n" in source
    assert source.startswith("import math\n")
    assert source.endswith("    return total\n")


def test_calls_by_keyword_from_outside_keep_working():
    source = program("def area(width, height=2):\n    return width * height")
    view = canonical_view(source)
    space = {}
    exec(restore(view, view.blocks()), space)
    assert space["area"](height=5, width=3) == 15


def test_names_are_shared_by_all_blocks_and_lines_are_numbered_through():
    source = program("A = 1\ndef f(x):\n    return x + A", after=program("y = f(A)", before=""))
    view = canonical_view(source)
    assert view.lines == ("v0 = 1", "def v1(v2):", "    return v2 + v0", "v3 = v1(v0)")
    assert view.counts == (3, 1)
    assert fingerprint(restore(view, view.blocks())) == fingerprint(source)


def test_a_block_inside_a_function_loses_and_regains_its_indentation():
    source = (
        "def f(a):\n    # EVOLVE-BLOCK-START\n    b = a\n    if b:\n        b = 2\n"
        "    # EVOLVE-BLOCK-END\n    return b\n"
    )
    view = canonical_view(source)
    assert view.lines == ("v0 = v1", "if v0:", "    v0 = 2")
    assert to_source(view, view.blocks()) == source


@pytest.mark.parametrize(
    ("block", "kept"),
    [
        ("class A:\n    size = 1\n    def grow(self, by):\n        self.size += by", "size grow"),
        ("def f(max, x):\n    return max(x) + len(x) + __name__", "max len __name__"),
        ("from math import pi as e\ndef f(x):\n    return e + math.inf", "e math"),
        ("def f(x):\n    return x.real + dict(key=x)", "real dict key"),
    ],
)
def test_what_is_not_the_programs_own_keeps_its_name(block, kept):
    shown = set(re.findall(r"[A-Za-z_]\w*", "\n".join(canonical_view(program(block)).lines)))
    assert set(kept.split()) <= shown


def test_numbers_that_the_program_uses_otherwise_are_passed_over():
    source = program("def f(a, b):\n    return a.v1 + b['v2'] + g(v3=a)\ng = f")
    view = canonical_view(source)
    assert view.names == {"v0": "f", "v4": "a", "v5": "b", "v6": "g"}
    assert fingerprint(restore(view, view.blocks())) == fingerprint(source)


def test_a_name_that_the_view_does_not_hold_takes_nobodys_place():
    # The real name v2 is shown as v1; a new v2 in an answer is another variable.
    source = program("def f(v2):\n    return v2 + 1")
    view = canonical_view(source)
    assert view.names == {"v0": "f", "v1": "v2"}
    lines = ["def v0(v1):", "    v2 = v1 * 3", "    return v2 + v1"]
    space = {}
    exec(restore(view, [lines]), space)
    assert space["f"](5) == 20
    missing = restore(view, [["def v0(v1):", "    return v2 + v1"]])
    assert len(check(missing).undefined) == 1


def test_generations_of_new_names_stay_apart():
    source = program("def f(x):\n    return x")
    for step in range(5):
        view = canonical_view(source)
        new = f"v{len(view.names)}"
        last = view.lines[-1].removeprefix("    return ")
        lines = [*view.lines[:-1], f"    {new} = {last} + 1", f"    return {new}"]
        source = restore(view, [lines])
        space = {}
        exec(source, space)
        assert space["f"](10) == 11 + step


def test_names_in_strings_and_nested_scopes_survive():
    block = """
def f(value, unit='m'):
    global count
    count = 0
    def add(n):
        nonlocal value
        value += n
        return f"{value!r:>{n}} {unit} {{value}} 'value'"
    match value:
        case {"a": first, **rest}:
            return lambda *args, **kw: (first, rest, args, kw)
        case [x, *others] if (y := x):
            return [y for y in others if y]
    try:
        pass
    except (ValueError, OSError) as error:
        return error
    return add
"""
    source = program(block)
    view = canonical_view(source)
    assert view.names
    assert fingerprint(restore(view, view.blocks())) == fingerprint(source)
    # What is left of it stands in a string.
    assert len(re.findall("value", "\n".join(view.lines))) == 2


@pytest.mark.parametrize(
    "source",
    [
        "if x:\n    y = 1\n# EVOLVE-BLOCK-START\nelse:\n    y = 2\n# EVOLVE-BLOCK-END\n",
        "x = 1\r\n# EVOLVE-BLOCK-START\ny = 1\rz = 2\n# EVOLVE-BLOCK-END\n",
        "# EVOLVE-BLOCK-START\nthis is no Python\n# EVOLVE-BLOCK-END\n",
    ],
)
def test_what_would_not_survive_is_shown_raw(source):
    assert canonical_view(source) == raw_view(source)
    assert canonical_view(source).names == {}


def test_a_program_without_blocks_is_refused():
    with pytest.raises(ProgramError, match="no evolve block"):
        canonical_view("x = 1\n")


def test_restore_says_when_the_result_is_not_python():
    view = canonical_view(SCORE)
    with pytest.raises(SyntaxError):
        restore(view, [["def v0(:"]])


def test_the_raw_view_is_what_is_written():
    view = raw_view(SCORE)
    assert view.lines == split_blocks(SCORE)[0].lines
    assert restore(view, view.blocks()) == SCORE


def _bare(source):
    """The tree without docstrings, by unparse and parse alone."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                kept = [
                    s
                    for s in body
                    if not isinstance(s, ast.Pass)
                    and not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
                ]
                body[:] = kept or ([ast.Pass()] if body and name == "body" else [])
    return ast.dump(tree)


def test_the_standard_library_comes_back_as_it_was():
    raw = 0
    for piece in pieces(limit=400):
        source = program(piece)
        view = canonical_view(source)
        raw += not view.names
        back = restore(view, view.blocks())
        assert fingerprint(back) == fingerprint(source)
        if view.names:
            assert _bare(back) == _bare(source), piece
    assert raw <= 4


def test_names_of_the_standard_library_are_of_the_alphabet():
    for piece in pieces(limit=200):
        view = canonical_view(program(piece))
        if not view.names:
            continue
        tree = ast.parse("\n".join(view.lines))
        aliases = [node for node in ast.walk(tree) if isinstance(node, ast.alias)]
        kept = {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
        kept |= {
            name.id
            for n in ast.walk(tree)
            if isinstance(n, ast.ClassDef)
            for name in ast.walk(n)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }
        names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
        names += [n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)]
        for name in names:
            own = re.fullmatch(r"v\d+", name) or name in kept or hasattr(builtins, name)
            methods = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
            assert own or name == "math" or name.startswith("__") or name in methods, name
