"""The scripted mutator: what it writes applies, runs, differs, and comes from its generator."""

import ast
import re
import sys

import numpy as np
import pytest

from evolve.canonical import canonical_view, raw_view
from evolve.edits import apply_answer, parse_completion
from evolve.mutate import WEIGHTS, propose, propose_with_operators
from evolve.mutation.kinds import kind_of, parameter_kinds
from evolve.program import fingerprint
from tests.evolve.standard_library import pieces

PACK = """\
import numpy as np

# EVOLVE-BLOCK-START
def pack(n):
    centers = np.zeros((n, 2))
    for i in range(n):
        angle = 2 * np.pi * i / n
        radius = 0.3 if i % 2 == 0 else 0.45
        centers[i] = [0.5 + radius * np.cos(angle), 0.5 + radius * np.sin(angle)]
    step = 0.01
    for k in range(20):
        for i in range(n):
            push = np.zeros(2)
            for j in range(n):
                if i != j:
                    gap = centers[i] - centers[j]
                    dist = np.sqrt(np.sum(gap ** 2)) + 1e-9
                    if dist < 0.2:
                        push += gap / dist * step
            centers[i] = np.clip(centers[i] + push, 0.01, 0.99)
        step *= 0.9
    return centers
# EVOLVE-BLOCK-END
"""
PRIORITY = """\
import numpy as np

# EVOLVE-BLOCK-START
def priority(item, bins):
    # The bins that are nearly full come first.
    left = bins - item
    share = left / (np.max(bins) + 1.0)
    score = -left + 0.5 * np.exp(-left / 10.0)
    if item > 0.5 and len(bins) > 3:
        score = score - share
    score[left == 0] += 5
    total = 0.0
    for value in bins:
        total += value * 0.1
    return (
        score * 2  # doubled
        + total
    )
# EVOLVE-BLOCK-END
"""
TOUR = """\
import math

# EVOLVE-BLOCK-START
def tour(points, alpha=1.0):
    left = list(range(1, len(points)))
    path = [0]
    while left:
        x, y = points[path[-1]]
        best = left[0]
        best_cost = math.inf
        for c in left:
            px, py = points[c]
            cost = math.hypot(px - x, py - y) + alpha * 0.1 * abs(px - 0.5)
            if cost < best_cost:
                best_cost = cost
                best = c
        path.append(best)
        left.remove(best)
    return path
# EVOLVE-BLOCK-END
"""
CALLS = {
    PACK: lambda space: space["pack"](5),
    PRIORITY: lambda space: space["priority"](0.3, np.linspace(0.3, 1, 9)),
    TOUR: lambda space: space["tour"]([(0.1 * i % 1, 0.37 * i % 1) for i in range(8)]),
}


def children(view, seed, rounds, inspirations=()):
    """(operators, answer, what came of it) of each answer."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        text, operators = propose_with_operators(view, rng, 3, inspirations)
        answers = parse_completion(text, "line", 3)
        assert len(answers) == len(operators)
        for name, answer in zip(operators, answers, strict=True):
            yield name, answer, apply_answer(view, answer)


@pytest.mark.parametrize("make", [canonical_view, raw_view])
@pytest.mark.parametrize("source", CALLS)
def test_answers_apply_and_differ(source, make):
    view = make(source)
    others = [other for other in CALLS if other != source]
    rng = np.random.default_rng(0)
    for _ in range(60):
        answers = parse_completion(propose(view, rng, 3, others), "line", 3)
        assert [answer.fault for answer in answers] == [None] * 3
        results = [apply_answer(view, answer) for answer in answers]
        assert [(r.fault, r.detail) for r in results] == [(None, "")] * 3
        assert len({r.source for r in results} | {source}) == 4


class TooLongError(Exception):
    """Raised inside a child that goes on and on."""


def _runs(source, call, steps=200_000):
    """Whether a program gives a result within a number of traced lines."""
    left = steps

    def count(frame, *_):
        nonlocal left
        if frame.f_code.co_filename == "<child>":
            left -= 1
            if left < 0:
                raise TooLongError
            return count
        return None

    space = {}
    sys.settrace(count)
    try:
        exec(compile(source, "<child>", "exec"), space)
        call(space)
    except Exception:  # noqa: BLE001 - whatever a child raises, it did not run
        return False
    finally:
        sys.settrace(None)
    return True


@pytest.mark.parametrize(("source", "call"), CALLS.items(), ids=["pack", "priority", "tour"])
def test_most_children_run(source, call):
    assert _runs(source, call)
    others = [other for other in CALLS if other != source]
    with np.errstate(all="ignore"):
        ran = [
            result.source is not None and _runs(result.source, call)
            for _, _, result in children(canonical_view(source), 1, 40, others)
        ]
    assert np.mean(ran) >= 0.7


def test_grandchildren_run_too():
    with np.errstate(all="ignore"):
        for source, call in CALLS.items():
            rng, ran = np.random.default_rng(2), []
            for _ in range(60):
                view = canonical_view(source)
                (answer,) = parse_completion(propose(view, rng, 1), "line", 1)
                result = apply_answer(view, answer)
                ran.append(result.source is not None and _runs(result.source, call))
                source = result.source if ran[-1] else source
            assert np.mean(ran) >= 0.7


def test_equal_generators_write_equal_completions():
    view = canonical_view(PACK)
    first = [propose(view, np.random.default_rng(s), 3, [TOUR]) for s in range(20)]
    again = [propose(view, np.random.default_rng(s), 3, [TOUR]) for s in range(20)]
    assert first == again
    assert len(set(first)) == 20


def test_every_operator_is_used_and_named():
    used = set()
    ordered = "# EVOLVE-BLOCK-START\ndef f(x):\n    x = x * 2\n    x = x + 1\n    return x\n"
    for source in (*CALLS, ordered + "# EVOLVE-BLOCK-END\n"):
        for name, _, _ in children(canonical_view(source), 3, 80, [PACK, PRIORITY]):
            used |= set(name.split("+"))
    assert used == set(WEIGHTS)


def test_lines_that_are_not_named_stay_as_they_are_written():
    view = raw_view(PRIORITY)
    for _, answer, result in children(view, 4, 30):
        touched = {change.line for change in answer.edit if change.sign != "+"}
        kept = [line for n, line in enumerate(view.lines, start=1) if n not in touched]
        rest = iter(result.source.split("\n"))
        assert all(line in rest for line in kept)


def test_answers_are_short():
    lengths = []
    for source in CALLS:
        for _, answer, _ in children(canonical_view(source), 5, 40):
            lengths.append(len(answer.edit))
    assert np.mean(lengths) < 2
    assert max(lengths) <= 16


def test_pieces_of_inspirations_arrive_under_names_that_are_here():
    source = "# EVOLVE-BLOCK-START\ndef f(x):\n    y = x * 2.0\n    return y\n# EVOLVE-BLOCK-END\n"
    other = "def g(p):\n    q = p * 1.0\n    return (q - 7.5) / (q + 8.5)\n"
    found = set()
    for name, _, result in children(canonical_view(source), 6, 150, [other]):
        assert not re.search(r"\b[pqg]\b", result.source)
        if "inspire" in name.split("+"):
            found |= set(re.findall(r"\d\.5", result.source))
    assert {"7.5", "8.5"} <= found


def test_a_module_that_the_program_lacks_is_not_called():
    source = PRIORITY.replace("import numpy as np\n", "").replace("np.max", "max")
    source = source.replace("np.exp", "abs")
    for _, answer, result in children(canonical_view(source), 7, 80, [PACK, TOUR]):
        assert "np." not in answer.text
        assert "math." not in answer.text
        assert result.fault is None


def test_raw_programs_of_any_layout_survive():
    source = '''\
import numpy as np
# EVOLVE-BLOCK-START
class Walk:
    """Doc
    string."""
    rate = 0.5
    @staticmethod
    def step(x, size=1.5,
             *, power=2):
        if x > 1: x = x - 1; y = x * 2
        else: y = 3.0
        # a comment
        try: z = y / x
        except ZeroDivisionError: z = 0.0
        z *= 0.5; z += size
        return (z
                ** power)
# EVOLVE-BLOCK-END
total = 0
def g(a):
    # EVOLVE-BLOCK-START
    b = a * 2 + 1
    b = b - total
    # EVOLVE-BLOCK-END
    return b
'''
    for make in (canonical_view, raw_view):
        seen = set()
        for _, answer, result in children(make(source), 8, 60):
            assert result.fault is None, answer.text
            assert "@staticmethod" in result.source
            assert result.source.count("EVOLVE-BLOCK") == 4
            seen.add(fingerprint(result.source))
        assert len(seen) > 60


def test_a_program_without_room_gives_no_answers():
    for block in ("", "def f():\n    return g()", "def f(:"):
        view = raw_view(f"# EVOLVE-BLOCK-START\n{block}\n# EVOLVE-BLOCK-END\n")
        assert propose_with_operators(view, np.random.default_rng(0), 3) == ("", ())


@pytest.mark.parametrize("line", ["-due", "due", "0.0", "[due]", "(due, length)"])
def test_a_program_of_one_line_is_no_dead_end(line):
    view = raw_view(
        "# EVOLVE-BLOCK-START\n"
        f"def priority(length, due, weight):\n    return {line}\n"
        "# EVOLVE-BLOCK-END\n"
    )
    seen = {result.source for _, answer, result in children(view, 0, 20)}
    assert len(seen - {None}) > 10
    for source in seen - {None}:
        scope = {}
        exec(compile(source, "child", "exec"), scope)
        scope["priority"](2.0, 3.0, 4.0)


def test_the_standard_library_can_be_mutated():
    counts = {"asked": 0, "given": 0, "applied": 0}
    before = ""
    for piece in pieces(limit=150, longest=1500):
        source = f"import re\n# EVOLVE-BLOCK-START\n{piece}\n# EVOLVE-BLOCK-END\n"
        view = canonical_view(source)
        for _, _, result in children(view, 9, 1, [before] if before else []):
            counts["given"] += 1
            counts["applied"] += result.fault is None
        counts["asked"] += 3
        before = source
    assert counts["given"] > 0.5 * counts["asked"]
    assert counts["applied"] > 0.99 * counts["given"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "i"),
        ("1.0", "f"),
        ("True", "b"),
        ("i + 1", "i"),
        ("i / 2", "f"),
        ("i * f", "f"),
        ("a * f", "a"),
        ("n + 1", "n"),
        ("a > 0", "m"),
        ("f > 0", "b"),
        ("a[0]", "n"),
        ("a[1:]", "a"),
        ("a[a > 0]", "a"),
        ("a.shape[0]", "i"),
        ("a.sum()", "f"),
        ("np.sum(a, axis=1)", "a"),
        ("np.linalg.norm(a)", "f"),
        ("np.exp(f)", "f"),
        ("np.zeros(3)", "a"),
        ("math.sqrt(i)", "f"),
        ("math.floor(f)", "i"),
        ("len(a)", "i"),
        ("max(i, f)", "f"),
        ("[1, 2]", "l"),
        ("f if i else i", "f"),
        ("unknown", "?"),
        ("np.where(a > 0, a, 0)", "a"),
    ],
)
def test_kinds(text, kind):
    env = {"i": "i", "f": "f", "a": "a", "n": "n"}
    node = ast.parse(text, mode="eval").body
    assert kind_of(node, env, {"np": "numpy", "math": "math"}) == kind


def test_kinds_of_parameters():
    function = ast.parse(
        "def f(x, items, n, size=2, rate=0.5, *rest):\n"
        "    y = x * np.sum(x) + x[0]\n"
        "    for i in range(n):\n        y += items[i][0]\n"
    ).body[0]
    assert parameter_kinds(function, {"np": "numpy"}) == {
        "x": "a", "items": "l", "n": "i", "size": "i", "rate": "f", "rest": "l"
    }  # fmt: skip
