"""The cap set judge against brute force and products of small caps."""

import itertools
import math

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import program_of, runner_of

TASK = load_task("cap_set")
RUN = runner_of(TASK)


def judged(numbers, n):
    return TASK.score(numbers, Case("any", {"n": n}))[f"size_{n}"]


def number(vector):
    return sum(int(v) * 3**i for i, v in enumerate(vector))


def is_cap(vectors):
    """Check every triple for a line."""
    return not any(
        all((a + b + c) % 3 == 0 for a, b, c in zip(*three, strict=True))
        for three in itertools.combinations(vectors, 3)
    )


def largest_cap(n):
    """Return one largest cap of a small dimension, found by trying."""
    everything = list(itertools.product(range(3), repeat=n))
    best = []

    def extend(chosen, candidates):
        nonlocal best
        if len(chosen) > len(best):
            best = chosen
        for k, v in enumerate(candidates):
            if len(chosen) + len(candidates) - k <= len(best):
                return
            third = [tuple(-(a + b) % 3 for a, b in zip(u, v, strict=True)) for u in chosen]
            extend([*chosen, v], [w for w in candidates[k + 1 :] if w not in third])

    extend([], everything)
    return best


PLANE = largest_cap(2)
SPACE = largest_cap(3)


def test_the_largest_caps_of_small_dimension():
    # Known: 4 in the plane, 9 in space.
    assert len(PLANE) == 4
    assert len(SPACE) == 9
    assert judged([number(v) for v in PLANE], 2) == 4
    assert judged([number(v) for v in SPACE], 3) == 9


@pytest.mark.parametrize(
    ("parts", "size"), [((PLANE, SPACE), 36), ((SPACE, SPACE), 81), ((SPACE, SPACE, PLANE), 324)]
)
def test_products_of_caps_are_caps(parts, size):
    vectors = [sum(choice, ()) for choice in itertools.product(*parts)]
    n = len(vectors[0])
    assert judged(np.array([number(v) for v in vectors]), n) == size
    assert size <= TASK.best_known[f"size_{n}"][0]


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_trying_every_triple(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 4))
    numbers = rng.choice(3**n, int(rng.integers(3, 7)), replace=False)
    vectors = [tuple(int(v) // 3**i % 3 for i in range(n)) for v in numbers]
    if is_cap(vectors):
        assert judged(numbers, n) == len(numbers)
    else:
        with pytest.raises(Invalid, match="lie on a line"):
            judged(numbers, n)


@pytest.mark.parametrize("seed", range(3))
def test_the_greedy_builder_makes_caps_that_cannot_grow(seed):
    source = (
        "import numpy as np\n"
        f"def priority(v, n): return np.random.default_rng({seed}).random(len(v))"
    )
    n = 3
    chosen = RUN(program_of(source), {"n": n}).tolist()
    vectors = [tuple(v // 3**i % 3 for i in range(n)) for v in chosen]
    assert is_cap(vectors)
    for other in itertools.product(range(3), repeat=n):
        assert other in vectors or not is_cap([*vectors, other])


def test_zero_and_one_vectors_make_the_cube():
    source = "import numpy as np\ndef priority(v, n): return -np.sum(v == 2, axis=1)"
    for n in (5, 6):
        chosen = RUN(program_of(source), {"n": n})
        assert judged(chosen, n) == 2**n
        assert TASK.score(chosen, Case("any", {"n": n}))["nonzero"] == 0.5


def test_a_priority_of_the_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"shape \(243, 5\), needed is \(243,\)"):
        RUN(program_of("def priority(v, n): return v"), {"n": 5})


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not a flat sequence of integers"),
        ([0.0, 1.0], "not a flat sequence of integers"),
        (["0", "1"], "not a flat sequence of integers"),
        ([True, False], "not a flat sequence of integers"),
        ([[0, 1]], "not a flat sequence of integers"),
        ([0, [1]], "not a flat sequence of integers"),
        ([math.nan], "not a flat sequence of integers"),
        ([10**400], "not a flat sequence of integers"),
        (7, "not a flat sequence of integers"),
        ([0, 9], "outside 0..8"),
        ([0, -1], "outside 0..8"),
        ([0, 2**62], "outside 0..8"),
        (np.array([2**64 - 1], dtype=np.uint64), "outside 0..8"),
        ([0, 1, 1], "a vector comes twice"),
        ([0, 1, 2], "the vectors 0, 1 and 2 lie on a line"),
        ([8, 4, 1, 0], "the vectors 8, 4 and 0 lie on a line"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        judged(output, 2)
    assert says in str(caught.value)


def test_the_empty_set_is_a_small_cap():
    assert judged(np.zeros(0, dtype=int), 5) == 0
