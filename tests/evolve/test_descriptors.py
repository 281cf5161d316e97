"""Built-in descriptors against counts made by hand."""

import ast
import math

import pytest

from evolve.descriptors import BUILTIN

PROGRAM = '''\
"""A module."""
import math
import numpy as np
from os import path

def f(xs, flag=True):
    """Sum."""
    total = 0  # a comment with "quotes"
    for x in xs:
        while x > 1 and flag:
            x = math.floor(x / 2)
        if x:
            total += np.linalg.norm([y for y in xs if y for z in xs])
    return total if total else len("# no comment")
'''


def measure(name, source):
    return BUILTIN[name](source, ast.parse(source))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # for, while, and, if, two generators and one of their ifs, conditional expression
        ("cyclomatic", 1 + 8),
        # for > while is 2 deep, for > two generators is 3
        ("loop_depth", 3),
        ("imports", 3),
        ("calls", 3),
        ("library_calls", 2),
        ("functions", 1),
        # 0, 1, 2; True is none
        ("constants", 3),
    ],
)
def test_counts(name, value):
    assert measure(name, PROGRAM) == value


def test_code_length_counts_characters_of_code_alone():
    assert measure("code_length", "x = 1  # one\n\n\n  # two\n") == len("x = 1")
    assert measure("code_length", "y = '# three'\n") == len("y = '# three'")
    assert measure("code_length", 's = """a\n# b"""  # c\n') == len('s = """a') + len('# b"""')


def test_ast_nodes_is_log2_of_the_nodes():
    # Module, Assign, Name, Constant; the context of the name is no node of its own.
    assert measure("ast_nodes", "x = 1\n") == 2.0
    assert measure("ast_nodes", '"""Says."""\nx = 1  # why\n') == 2.0
    # Twice the statement: 1 + 2 * 3.
    assert measure("ast_nodes", "x = 1\nx = 1\n") == math.log2(7)


@pytest.mark.parametrize("name", sorted(set(BUILTIN) - {"code_length"}))
def test_formatting_and_comments_change_nothing_but_the_length(name):
    other = ast.unparse(ast.parse(PROGRAM))
    assert measure(name, other) == measure(name, PROGRAM)


@pytest.mark.parametrize("name", sorted(BUILTIN))
@pytest.mark.parametrize("source", ["", "x = 1", "x = " + "1+" * 2000 + "1", "def f(): 'doc'"])
def test_any_program_has_a_finite_value(name, source):
    assert math.isfinite(measure(name, source))


def test_two_programs_of_one_shape_differ_where_they_differ():
    flat = "def f(x):\n    return x + 1 + x\n"
    loop = "def f(x):\n    for _ in x: x\n    return x\n"
    assert measure("loop_depth", flat) == 0
    assert measure("loop_depth", loop) == 1
    assert measure("cyclomatic", flat) == 1
    assert measure("cyclomatic", loop) == 2
