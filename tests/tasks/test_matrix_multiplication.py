"""The multiplication judge against Strassen, Laderman, multiplying numbers, and bad answers."""

import math
import re

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module, program_of, runner_of

TASK = load_task("matrix_multiplication")
JUDGE = judge_module("matrix_multiplication")

# V. Strassen, "Gaussian elimination is not optimal", 1969.
STRASSEN = """
a11+a22 b11+b22 c11+c22
a21+a22 b11 c21-c22
a11 b12-b22 c12+c22
a22 b21-b11 c11+c21
a11+a12 b22 c12-c11
a21-a11 b11+b12 c22
a12-a22 b21+b22 c11
"""
# J. Laderman, "A noncommutative algorithm for multiplying 3 x 3 matrices using 23
# multiplications", 1976: each product, and the entries of C that it is added to.
LADERMAN = """
a11+a12+a13-a21-a22-a32-a33 b22 c12
a11-a21 b22-b12 c21+c22
a22 b12-b11+b21-b22-b23-b31+b33 c21
a21-a11+a22 b11-b12+b22 c12+c21+c22
a21+a22 b12-b11 c12+c22
a11 b11 c11+c12+c13+c21+c22+c31+c33
a31-a11+a32 b11-b13+b23 c13+c31+c33
a31-a11 b13-b23 c31+c33
a31+a32 b13-b11 c13+c33
a11+a12+a13-a22-a23-a31-a32 b23 c13
a32 b13-b11+b21-b22-b23-b31+b32 c31
a32-a13+a33 b22+b31-b32 c12+c31+c32
a13-a33 b22-b32 c31+c32
a13 b31 c11+c12+c13+c21+c23+c31+c32
a32+a33 b32-b31 c12+c32
a22-a13+a23 b23+b31-b33 c13+c21+c23
a13-a23 b23-b33 c21+c23
a22+a23 b33-b31 c13+c23
a12 b21 c11
a23 b32 c22
a21 b13 c23
a31 b12 c32
a33 b33 c33
"""


def parsed(text, n, m, p):
    """An algorithm written in entries as three coefficient arrays."""
    columns = {"a": m, "b": p, "c": p}
    rows = {"a": n * m, "b": m * p, "c": n * p}
    found = {name: [] for name in "abc"}
    for line in text.split("\n")[1:-1]:
        for part in line.split():
            form = np.zeros(rows[part[0]], dtype=int)
            for sign, name, i, j in re.findall(r"([+-]?)([abc])(\d)(\d)", part):
                form[(int(i) - 1) * columns[name] + int(j) - 1] += -1 if sign == "-" else 1
            found[part[0]].append(form)
    return tuple(np.array(found[name]) for name in "abc")


def judged(algorithm, shape):
    return TASK.score(algorithm, Case("it", {"shape": shape}))["it"]


def nested(one, other, shape, inner):
    """The algorithm that multiplies matrices of blocks by one and the blocks by another."""
    (n, m, p), (q, r, s) = shape, inner
    sizes = ((n, m, q, r), (m, p, r, s), (n, p, q, s))
    return tuple(
        np.kron(a, b).reshape(-1, h, w, y, z).swapaxes(2, 3).reshape(-1, h * w * y * z)
        for a, b, (h, w, y, z) in zip(one, other, sizes, strict=True)
    )


def test_published_algorithms_have_their_numbers():
    strassen = parsed(STRASSEN, 2, 2, 2)
    assert judged(strassen, (2, 2, 2)) == 7
    assert judged(parsed(LADERMAN, 3, 3, 3), (3, 3, 3)) == 23
    assert TASK.best_known["products_333"][0] == 23
    square = (2, 2, 2)
    assert judged(nested(strassen, strassen, square, square), (4, 4, 4)) == 49


def test_what_is_missing_costs_a_product_each():
    strassen = parsed(STRASSEN, 2, 2, 2)
    nothing = tuple(np.zeros((0, size)) for size in (8, 20, 10))
    assert judged(nothing, (2, 4, 5)) == 40
    # Without its last product C11 lacks (a12 - a22)(b21 + b22): four pairs.
    assert judged(tuple(part[:-1] for part in strassen), (2, 2, 2)) == 6 + 4
    # A product that does nothing still counts.
    idle = tuple(np.append(part, np.zeros((1, 4)), axis=0) for part in strassen)
    assert judged(idle, (2, 2, 2)) == 8
    # Off by an eighth is off.
    out = strassen[2].astype(float)
    out[6, 0] += 1 / 8
    assert judged((*strassen[:2], out), (2, 2, 2)) == 7 + 4


@pytest.mark.parametrize("seed", range(10))
def test_the_completed_algorithm_multiplies_numbers(seed):
    rng = np.random.default_rng(seed)
    n, m, p = shape = tuple(int(v) for v in rng.integers(1, 5, 3))
    sizes = (n * m, m * p, n * p)
    parts = [rng.integers(-1, 2, (5, size)) * rng.integers(0, 2, (5, size)) for size in sizes]
    total = judged(parts, shape)
    a, b = rng.integers(-9, 10, (n, m)), rng.integers(-9, 10, (m, p))
    left, right, out = parts
    made = ((left @ a.ravel()) * (right @ b.ravel())) @ out
    # The pairs that are left over, found by asking what each pair alone contributes.
    extra = np.zeros(n * p, dtype=int)
    pairs = 0
    for i in range(n * m):
        for j in range(m * p):
            unit_a, unit_b = np.eye(n * m, dtype=int)[i], np.eye(m * p, dtype=int)[j]
            right_one = (unit_a.reshape(n, m) @ unit_b.reshape(m, p)).ravel()
            wrong = right_one - ((left @ unit_a) * (right @ unit_b)) @ out
            pairs += bool(wrong.any())
            extra += a.ravel()[i] * b.ravel()[j] * wrong
    assert (made + extra == (a @ b).ravel()).all()
    assert total == 5 + pairs


def test_the_builder_puts_blocks_in_their_places():
    run = runner_of(TASK)
    strassen = [part.tolist() for part in parsed(STRASSEN, 2, 2, 2)]
    source = f"def products(n, m, p):\n    a, b, c = {strassen}\n    return "
    one = run(program_of(source + "[(a, b, c, (0, 0, 0))]"), {"shape": (2, 2, 2)})
    assert all((x == y).all() for x, y in zip(one, parsed(STRASSEN, 2, 2, 2), strict=True))
    # Four blocks of 2 x 4 by 4 x 5 and the last column in the plain way: 28 + 8.
    four = "[(a, b, c, (0, j, k)) for j in (0, 2) for k in (0, 2)]"
    assert judged(run(program_of(source + four), {"shape": (2, 4, 5)}), (2, 4, 5)) == 36
    odd = "def products(n, m, p):\n    return [([[1 / 3] * 4] * 2,) * 3 + ((5, -1, 0.5),)]\n"
    third = run(program_of(odd), {"shape": (2, 3, 4)})
    assert set(np.concatenate([part.ravel() for part in third])) == {0.0, 0.375}


ONE = [[1, 0, 0, 1]]


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not (left, right, out)"),
        ((ONE, ONE), "not (left, right, out)"),
        ((ONE, ONE, [[1, 0]]), "out is not an array of numbers with 4 columns"),
        ((ONE, [1, 0, 0, 1], ONE), "right is not an array"),
        (([[1, 0], [1]], ONE, ONE), "left is not an array"),
        (([["1", 0, 0, 0]], ONE, ONE), "left is not an array"),
        (([[True] * 4], ONE, ONE), "left is not an array"),
        (([[1j, 0, 0, 0]], ONE, ONE), "left is not an array"),
        (([[10**400, 0, 0, 0]], ONE, ONE), "left is not an array"),
        (([[math.nan, 0, 0, 0]], ONE, ONE), "not finite and below"),
        ((ONE, [[math.inf, 0, 0, 0]], ONE), "not finite and below"),
        ((ONE, ONE, [[1e300, 0, 0, 0]]), "not finite and below"),
        (([[0.1, 0, 0, 0]], ONE, ONE), "left holds a number that is no multiple of 1/8"),
        ((ONE, ONE * 2, ONE), "1, 2 and 1 rows"),
        ((ONE * 201, ONE * 201, ONE * 201), "201 rows, at most 200"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        judged(output, (2, 2, 2))
    assert says in str(caught.value)


def test_sums_of_the_largest_coefficients_stay_exact():
    # 200 rows of the largest coefficients: sums of 10^14 in units, far below 2^63.
    rows = [np.full((200, 4), 999.875)] * 3
    exact = 200 * (999 * 8 + 7) ** 3
    assert exact < 2**62
    assert judged(rows, (2, 2, 2)) == 200 + 16
