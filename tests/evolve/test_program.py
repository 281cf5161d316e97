"""Blocks, parsing, fingerprints and undefined names, against symtable, dumps and known pairs."""

import ast
import builtins
import copy
import symtable
import textwrap

import pytest

from evolve.program import (
    MAX_SOURCE_BYTES,
    Block,
    ProgramError,
    check,
    fingerprint,
    parse_source,
    replace_blocks,
    split_blocks,
    undefined_names,
)
from tests.evolve.standard_library import FILES, pieces

TWO = """\
import math
# EVOLVE-BLOCK-START first
a = 1
b = 2
# EVOLVE-BLOCK-END
c = 3
def f():
    # EVOLVE-BLOCK-START
    return 1
    # EVOLVE-BLOCK-END
"""


def test_blocks_are_the_lines_between_markers():
    assert split_blocks(TWO) == (
        Block(2, 3, ("a = 1", "b = 2")),
        Block(8, 8, ("    return 1",)),
    )


def test_replaced_blocks_leave_the_rest_alone():
    assert replace_blocks(TWO, [block.lines for block in split_blocks(TWO)]) == TWO
    changed = replace_blocks(TWO, [["x = 1", "y = 2", "z = 3"], []])
    assert [block.lines for block in split_blocks(changed)] == [("x = 1", "y = 2", "z = 3"), ()]
    assert (
        changed.replace("x = 1\ny = 2\nz = 3", "a = 1\nb = 2").replace(
            "    # EVOLVE-BLOCK-END", "    return 1\n    # EVOLVE-BLOCK-END"
        )
        == TWO
    )
    with pytest.raises(ProgramError, match="1 blocks for a program with 2"):
        replace_blocks(TWO, [["x = 1"]])


def test_a_marker_in_a_string_is_none():
    source = 's = """\n# EVOLVE-BLOCK-START\n"""\n# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n'
    assert split_blocks(source) == (Block(4, 4, ("x = 1",)),)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\n", "no evolve block"),
        ("# EVOLVE-BLOCK-START\nx = 1\n", "line 1: EVOLVE-BLOCK-START without"),
        ("x = 1\n# EVOLVE-BLOCK-END\n", "line 2: EVOLVE-BLOCK-END without"),
        (
            "# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-END\n",
            "line 2: EVOLVE-BLOCK-START inside the block of line 1",
        ),
    ],
)
def test_unusable_blocks_are_named(source, message):
    with pytest.raises(ProgramError, match=message):
        split_blocks(source)


HOSTILE = {
    "too large": "x = 1\n" * (MAX_SOURCE_BYTES // 6 + 1),
    "too large in bytes": "# " + "é" * (MAX_SOURCE_BYTES // 2),
    "too large in bytes, in parts": "x = 'é'\n" * (MAX_SOURCE_BYTES // 9 + 1),
    "null byte": "x = 1\0",
    "surrogate": "x = '\ud800'",
    "parentheses": "(" * 30000 + ")" * 30000,
    "nested lists": "[" * 150 + "]" * 150 + "+",
    "calls": "f(" * 20000,
    "minus": "-" * 60000 + "1",
    "not": "not " * 16000 + "1",
    "lambda": "lambda:" * 9000 + "1",
    "sum": "+".join(["1"] * 30000),
    "attributes": "x" + ".a" * 30000,
    "digits": "x = " + "9" * 5000,
    "hexadecimal": "x = 0x" + "f" * 20000,
    "indentation": "".join(" " * i + "if x:\n" for i in range(120)) + " " * 120 + "x",
    "half a string": "x = '''",
    "f-string": "f'" + "{" * 1000,
    "no python": "Sure! Here is the program:",
    "return": "return 1",
    "break": "def f():\n    break",
    "continue in a nested function": "for x in y:\n    def f():\n        continue",
    "yield in a class": "class A:\n    yield 1",
    "parameter twice": "def f(a, *a): pass",
    "nonlocal": "nonlocal x",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_ends_in_a_syntax_error(text):
    with pytest.raises(SyntaxError):
        check(text)
    try:
        tree = parse_source(text)
    except SyntaxError:
        return
    with pytest.raises(SyntaxError):
        fingerprint(tree)


def test_whatever_check_refuses_python_refuses_too():
    for name in (
        "return",
        "break",
        "continue in a nested function",
        "yield in a class",
        "parameter twice",
        "nonlocal",
        "no python",
    ):
        with pytest.raises(SyntaxError):
            compile(HOSTILE[name], "", "exec")


def test_a_syntax_error_names_the_line_of_the_whole_text():
    with pytest.raises(SyntaxError) as caught:
        check("x = 1\n\ndef f():\n    return 2\n\ny = = 3\n")
    assert caught.value.lineno == 6


SAME = [
    ("x=1;y = 2", "x = 1  # one\n\n\ny = 2"),
    ("def f(a):\n  return (a)+1", 'def f(b):\n    """Doc."""\n    return b + 1'),
    ("def f():\n    x = 1\n    return x", "def f():\n    y = 1\n    pass\n    return y"),
    ("f = lambda a, b: a - b", "f = lambda u, v: u - v"),
    ("y = [i * j for i in a for j in i]", "y = [p * q for p in a for q in p]"),
    (
        "def f(n):\n    def g(k):\n        return n + k\n    return g",
        "def f(a):\n    def b(c):\n        return a + c\n    return b",
    ),
    (
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    return g",
        "def f():\n    m = 0\n    def h():\n        nonlocal m\n        m += 1\n    return h",
    ),
    (
        "def f(x):\n    try:\n        g()\n    except E as e:\n        return e",
        "def f(y):\n    try:\n        g()\n    except E as err:\n        return err",
    ),
    (
        "def f(x):\n    match x:\n        case [a, *b]:\n            return a, b",
        "def f(x):\n    match x:\n        case [p, *q]:\n            return p, q",
    ),
    ("def f(x):\n    return f'{x:.3f}'", 'def f(y):\n    return f"{y:.3f}"'),
    (
        "def f():\n    import numpy as a\n    return a.e",
        "def f():\n    import numpy as b\n    return b.e",
    ),
    ("def f(x):\n    return [y := x, y]", "def f(x):\n    return [z := x, z]"),
    ("class A:\n    '''Doc.'''\n    def f(self): ...", "class A:\n    def f(this): pass"),
    ("def g(width=1): pass\ng(2)", "def g(w=1): pass\ng(2)"),
]
DIFFERENT = [
    ("x = 1", "x = 1.0"),
    ("x = 1", "x = True"),
    ("x = 'a'", "x = b'a'"),
    ("x = a + b", "x = b + a"),
    ("x = a - b", "x = a + b"),
    ("x = 1", "y = 1"),
    ("x.a = 1", "x.b = 1"),
    ("def f(a, b):\n    return a - b", "def f(a, b):\n    return b - a"),
    ("def f(a, b): pass", "def f(a, *, b): pass"),
    ("def f(a, b): pass", "def f(a, *b): pass"),
    ("def f(a, /, b): pass", "def f(a, b): pass"),
    ("def f(a=1): pass", "def f(a=2): pass"),
    ("def f(): pass\ndef g(): pass", "def g(): pass\ndef f(): pass"),
    ("def f():\n    x = 1\n    return x", "def f():\n    global x\n    x = 1\n    return x"),
    ("def f():\n    x = 1\n    return x", "def f():\n    x = 1\n    return y"),
    (
        "def f():\n    n = 0\n    def g():\n        n = 1\n    return n",
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n = 1\n    return n",
    ),
    ("if a:\n    b()\nc()", "if a:\n    b()\n    c()"),
    ("if a:\n    b()\nelse:\n    c()", "if a:\n    b()\n    c()"),
    ("for i in x:\n    f()\nelse:\n    g()", "for i in x:\n    f()\ng()"),
    ("x = [a for a in b if a]", "x = [a for a in b]"),
    ("f(a, b)", "f(a, *b)"),
    ("f(a=b)", "f(c=b)"),
    ("f(**b)", "f(b)"),
    ("x[1:2]", "x[1:2:3]"),
    ("x[:, 1]", "x[1, :]"),
    ("def f(x):\n    return f'{x:.3f}'", "def f(x):\n    return f'{x:.4f}'"),
    ("def f(x):\n    return f'{x}'", "def f(x):\n    return f'{x!r}'"),
    ("import a as b", "import c as b"),
    ("from a import b", "from .a import b"),
    ("class A(B): pass", "class A(C): pass"),
    ("class A:\n    x = 1", "class A:\n    y = 1"),
    ("async def f(): pass", "def f(): pass"),
    ("def f(x): yield x", "def f(x): yield from x"),
    ("def f():\n    a = 1\n    return eval('a')", "def f():\n    b = 1\n    return eval('a')"),
    ("def g(width=1): pass\ng(width=2)", "def g(w=1): pass\ng(width=2)"),
    ("x = a < b < c", "x = a < b and b < c"),
    ("x = a if b else c", "x = c if b else a"),
    ("@d\ndef f(): pass", "def f(): pass"),
    ("try:\n    a()\nfinally:\n    b()", "try:\n    a()\nexcept E:\n    b()"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_program_written_otherwise_has_the_same_fingerprint(one, other):
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_program_has_another_fingerprint(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_every_constant_operator_and_attribute_counts():
    changed = 0
    for source in pieces(limit=25):
        plain = fingerprint(source)
        for index, node in enumerate(ast.walk(ast.parse(source))):
            tree = ast.parse(source)
            twin = list(ast.walk(tree))[index]
            if isinstance(node, ast.Constant):
                twin.value = f"other {node.value}"
            elif isinstance(node, ast.BinOp):
                twin.op = ast.MatMult() if not isinstance(node.op, ast.MatMult) else ast.Add()
            elif isinstance(node, ast.Compare):
                twin.ops = [ast.NotIn() if not isinstance(node.ops[0], ast.NotIn) else ast.Eq()]
                twin.comparators = node.comparators[:1]
            elif isinstance(node, ast.Attribute):
                twin.attr += "_"
            else:
                continue
            if _without_docstrings(tree) != _without_docstrings(ast.parse(source)):
                changed += 1
                assert fingerprint(tree) != plain, ast.dump(node)
    assert changed > 250


def _without_docstrings(tree):
    tree = copy.deepcopy(tree)
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                body[:] = [
                    s
                    for s in body
                    if not isinstance(s, ast.Pass)
                    and not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
                ]
    return ast.dump(tree)


def test_a_text_and_its_tree_have_one_fingerprint():
    for path in FILES[::4]:
        text = path.read_text(encoding="utf-8", errors="replace")
        if len(text.encode()) <= MAX_SOURCE_BYTES:
            tree = ast.parse(text)
            assert check(text).fingerprint == fingerprint(tree) == fingerprint(ast.unparse(tree))
            assert check(text).undefined == undefined_names(tree)


def test_undefined_names_agree_with_the_compiler():
    seen = 0
    for path in FILES[::3]:
        text = path.read_text(encoding="utf-8", errors="replace")
        if "import *" in text or len(text.encode()) > MAX_SOURCE_BYTES:
            continue
        # Without its imports a module lacks many names.
        tree = ast.parse(text)
        tree.body = [n for n in tree.body if not isinstance(n, (ast.Import, ast.ImportFrom))]
        bare = ast.unparse(tree)
        assert undefined_names(ast.parse(bare)) == _by_symtable(bare), path
        seen += len(undefined_names(ast.parse(bare)))
    assert seen > 100


def _by_symtable(source):
    top = symtable.symtable(source, "", "exec")
    tables, used, bound = [top], set(), set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            free = symbol.is_global() or table is top
            if (
                table.get_type() == "class"
                and not symbol.is_assigned()
                and not symbol.is_imported()
            ):
                free = not symbol.is_free()
            if free and symbol.is_referenced() and not symbol.is_free():
                used.add(symbol.get_name())
            if (table is top or symbol.is_declared_global()) and (
                symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            ):
                bound.add(symbol.get_name())
    own = {"__name__", "__file__", "__doc__", "__class__", "__builtins__", "__package__"}
    own |= {"__spec__", "__loader__", "__annotations__", "__module__", "__qualname__"}
    return used - bound - set(dir(builtins)) - own


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("print(len(x))", {"x"}),
        ("def f(): return g()\ndef g(): return h", {"h"}),
        ("import numpy as np\nnumpy.sum(np.e)", {"numpy"}),
        ("import os.path\nos.sep", set()),
        ("from numpy import *\narray(x)", set()),
        ("[i for i in range(3)]\ni", {"i"}),
        ("class A:\n    x = 1\n    def f(self):\n        return x", {"x"}),
        ("def f():\n    global y\n    y = 1\ny", set()),
        ("try:\n    pass\nexcept E as e:\n    e", {"E"}),
        ("(lambda a: a + b)(1)", {"b"}),
        ("[y := 1 for i in (1, 2)]\ny", set()),
        ("def f(a=z): pass", {"z"}),
        ("@d\nclass A(B): pass", {"d", "B"}),
    ],
)
def test_undefined_names(source, missing):
    assert undefined_names(parse_source(source)) == missing
    assert check(source).undefined == missing


def test_a_text_that_is_cut_inside_a_string_is_read_whole():
    source = textwrap.dedent('''
        x = """
        a = 1
        y = undefined
        """
        if x:
            pass
        else:
            z = 1
        ''')
    assert check(source).undefined == set()
    assert check(source).fingerprint == fingerprint(parse_source(source))
