"""The cuts are counted, and the largest of them found again by trying all."""

import math

import networkx as nx
import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.largest_cut import largest_cut
from tests.tasks.loading import judge_module, program_of, runner_of

TASK = load_task("max_cut")
JUDGE = judge_module("max_cut")
PATH = Case("path", {"n": 3, "edges": [(0, 1, 2), (1, 2, 3)]}, {"family": "hubs", "largest": 5})


@pytest.mark.parametrize("family", ["signed", "hubs"])
@pytest.mark.parametrize("index", range(JUDGE.INSTANCES))
def test_the_largest_cuts_are_found_again(family, index):
    assert largest_cut(*JUDGE.make_graph(family, index)) == JUDGE.LARGEST[family][index]


def test_trying_all_cuts_agrees_with_what_is_known():
    def edges(graph):
        return [(a, b, 1) for a, b in graph.edges]

    # n^2 / 4 for complete graphs, all edges of a bipartite one, 12 for Petersen's.
    for n in range(2, 9):
        assert largest_cut(n, edges(nx.complete_graph(n))) == n * n // 4
    assert largest_cut(12, edges(nx.complete_bipartite_graph(5, 7))) == 35
    assert largest_cut(10, edges(nx.petersen_graph())) == 12


def test_the_theory_of_tori_holds_on_small_ones(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(JUDGE, "TORI", ((3, 3), (3, 5), (3, 7)))
    monkeypatch.setattr(JUDGE, "TRIANGULAR", ((4, 4), (4, 5), (4, 4)))
    for index, (p, q) in enumerate(JUDGE.TORI[:2]):
        assert largest_cut(p * q, JUDGE.torus(index, rng)) == 2 * p * q - p - q
    assert largest_cut(16, JUDGE.triangles(0, rng)) == 2 * 16


@pytest.mark.parametrize("index", range(JUDGE.INSTANCES))
def test_chessboards_and_rows_reach_the_largest_cut_of_a_torus(index):
    rng = np.random.default_rng(0)
    for family, sides, colour in (
        ("torus", JUDGE.TORI, lambda i, j: (i + j) % 2),
        ("triangles", JUDGE.TRIANGULAR, lambda i, _: i % 2),
    ):
        p, q = sides[index]
        given = {"n": p * q, "edges": JUDGE.FAMILIES[family](index, rng)}
        case = Case("it", given, {"family": family, "largest": JUDGE.LARGEST[family][index]})
        assert TASK.score([colour(i, j) for i in range(p) for j in range(q)], case)[family] == 0.0


def test_a_cut_is_measured_by_hand():
    assert TASK.score([0, 1, 0], PATH) == {"hubs": 0.0, "smaller_side": pytest.approx(1 / 3)}
    assert TASK.score([0, 1, 1], PATH)["hubs"] == 60.0
    assert TASK.score(np.zeros(3, dtype=np.uint8), PATH)["hubs"] == 100.0


def test_the_greedy_builder_follows_the_preference():
    run = runner_of(TASK)
    program = program_of(
        "def preference(left, right, rest, degree):\n    return degree, right - left\n"
    )
    # Vertex 1 has two edges and no side yet, so it goes right; the others then go left.
    assert run(program, PATH.given).tolist() == [0, 1, 0]
    program = program_of("def preference(left, right, rest, degree):\n    return rest, 1.0\n")
    assert run(program, PATH.given).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not a flat sequence"),
        ([0, 1], "not a flat sequence of 3 sides"),
        ([[0], [1], [0]], "not a flat sequence of 3 sides"),
        ([[0], [1, 2], [0]], "not a flat sequence of 3 sides"),
        ([0.0, 1.0, 0.0], "not a flat sequence"),
        ([math.nan, 0, 1], "not a flat sequence"),
        ([math.inf, 0, 1], "not a flat sequence"),
        (["0", "1", "0"], "not a flat sequence"),
        ([True, False, True], "not a flat sequence"),
        ([10**400, 0, 1], "not a flat sequence"),
        ([0, 1, 2], "neither 0 nor 1"),
        ([0, 1, -1], "neither 0 nor 1"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, PATH)
    assert says in str(caught.value)
