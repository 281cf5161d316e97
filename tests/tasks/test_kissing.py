"""The kissing judge against lattices whose numbers are known, near misses, and bad answers."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module, program_of, runner_of

TASK = load_task("kissing")
JUDGE = judge_module("kissing")


def judged(vectors, d):
    return TASK.score(vectors, Case("any", {"d": d}))[f"spheres_{d}"]


def roots(d):
    """The 2 d (d - 1) vectors of D_d: two entries +-1."""
    return [
        [a if i == p else b if i == q else 0 for i in range(d)]
        for p, q in combinations(range(d), 2)
        for a, b in product((-1, 1), repeat=2)
    ]


def e8():
    """The 240 shortest vectors of E8, doubled: those of D8, and evenly signed eights."""
    halves = [v for v in product((-1, 1), repeat=8) if np.prod(v) == 1]
    return [[2 * x for x in v] for v in roots(8)] + [list(v) for v in halves]


def test_root_lattices_have_their_kissing_numbers():
    assert judged([[1, 0], [-1, 0], [0, 1], [0, -1]], 2) == 4
    assert judged(roots(3), 3) == 12
    assert judged(roots(4), 4) == 24
    assert judged(e8(), 8) == 240
    assert judged(np.array(roots(11), dtype=np.int16), 11) == 220


def test_the_hexagon_is_exact_only_up_to_its_rounding():
    # Six points of a circle of radius 10^5, rounded: some pair is nearer than the radius.
    points = [
        [round(1e5 * math.cos(a)), round(1e5 * math.sin(a))] for a in np.arange(6) * np.pi / 3
    ]
    with pytest.raises(Invalid, match="closer than the longest is long"):
        judged(points, 2)
    # Five have room.
    five = [[round(1e5 * math.cos(a)), round(1e5 * math.sin(a))] for a in np.arange(5) * 1.25]
    assert judged(five, 2) == 5


def test_one_more_or_one_unit_off_is_refused():
    with pytest.raises(Invalid, match="closer than the longest"):
        judged([*e8(), [1, 1, 1, 1, 1, 1, 1, -1]], 8)
    nudged = np.array(roots(4)) * 1000
    nudged[5, 0] += 1
    with pytest.raises(Invalid, match="closer than the longest"):
        judged(nudged, 4)
    with pytest.raises(Invalid, match="vectors 0 and 24 are closer"):
        judged([*roots(4), roots(4)[0]], 4)


@pytest.mark.parametrize("seed", range(30))
def test_what_passes_has_angles_of_60_degrees_in_rational_arithmetic(seed):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-3, 4, (int(rng.integers(2, 5)), 5)).tolist()
    try:
        judged(vectors, 5)
    except Invalid:
        return
    for a, b in combinations(vectors, 2):
        product_ = sum(x * y for x, y in zip(a, b, strict=True))
        squares = sum(x * x for x in a) * sum(y * y for y in b)
        # cos <= 1/2, squared where it is positive.
        assert product_ <= 0 or Fraction(product_**2, squares) <= Fraction(1, 4)


def test_the_builder_takes_the_laminated_lattice_in_the_order_of_digits():
    program = program_of("def priority(v):\n    return v @ [5.0**-i for i in range(v.shape[1])]\n")
    run = runner_of(TASK)
    # 240 of E8 and 272 of the laminated lattice in 9 dimensions, Conway and Sloane, table 1.5.
    assert judged(run(program, {"d": 8}), 8) == 240
    assert judged(run(program, {"d": 9}), 9) == 272
    with pytest.raises(ValueError, match="priority returned shape"):
        run(program_of("def priority(v):\n    return 1.0\n"), {"d": 8})


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not an array of integers of shape (m, 2)"),
        ([], "not an array of integers"),
        ([1, 2], "not an array of integers"),
        ([[1, 2, 3]], "not an array of integers"),
        ([[1, 2], [1]], "not an array of integers"),
        ([[1.0, 0.0]], "not an array of integers"),
        ([[math.nan, 0]], "not an array of integers"),
        ([[math.inf, 0]], "not an array of integers"),
        ([["1", "0"]], "not an array of integers"),
        ([[True, False]], "not an array of integers"),
        ([[10**400, 0]], "not an array of integers"),
        (np.zeros((0, 2), dtype=int), "0 vectors, 1 to"),
        (np.ones((2001, 2), dtype=int), "2001 vectors, 1 to"),
        ([[10**6, 0]], "not between"),
        ([[-(2**63), 0]], "not between"),
        ([[1, 0], [0, 0]], "vector 1 is zero"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        judged(output, 2)
    assert says in str(caught.value)
