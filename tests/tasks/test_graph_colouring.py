"""The colouring judge against theorems, networkx and brute force."""

import itertools
import math
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module, program_of, runner_of

TASK = load_task("graph_colouring")
JUDGE = judge_module("graph_colouring")
RUN = runner_of(TASK)


def case_of(graph, bound):
    n, edges = graph
    return Case("any", {"n": n, "edges": edges}, {"family": "excess", "bound": bound})


def cases_of(family):
    return [case for case in TASK.cases if case.hidden["family"] == family]


def test_families_have_the_edges_that_they_should():
    for side in JUDGE.QUEENS:
        n, edges = JUDGE.queens(side)
        # Rows and columns, and both diagonals: n (n - 1) (5 n - 1) / 3.
        assert (n, len(edges)) == (side**2, side * (side - 1) * (5 * side - 1) // 3)
    for n, k in JUDGE.KNESER:
        graph = nx.kneser_graph(n, k)
        size, edges = JUDGE.kneser(n, k)
        assert (size, len(edges)) == (graph.number_of_nodes(), graph.number_of_edges())
        assert set(dict(nx.Graph(edges).degree).values()) == {math.comb(n - k, k)}


@pytest.mark.parametrize("case", cases_of("random"), ids=lambda case: case.name)
def test_the_largest_clique_is_what_is_declared(case):
    graph = nx.Graph(case.given["edges"])
    assert max(map(len, nx.find_cliques(graph))) == case.hidden["bound"]


def test_optimal_colourings_of_kneser_graphs_have_no_excess():
    for n, k in JUDGE.KNESER:
        sets = list(itertools.combinations(range(n), k))
        # By the smallest element, all sets within the last 2k - 1 things together.
        colours = [min(s[0], n - 2 * k + 1) for s in sets]
        scores = TASK.score(colours, case_of(JUDGE.kneser(n, k), n - 2 * k + 2))
        assert scores["excess"] == 0.0


def test_a_linear_colouring_of_the_queens_of_side_7_has_no_excess():
    colours = [(2 * a + b) % 7 for a, b in itertools.product(range(7), repeat=2)]
    scores = TASK.score(colours, case_of(JUDGE.queens(7), JUDGE.QUEENS[7]))
    assert scores == {"excess": 0.0, "largest_class": 1.0}
    with pytest.raises(Invalid, match="have the same colour"):
        TASK.score(
            [(a + b) % 7 for a, b in itertools.product(range(7), repeat=2)],
            case_of(JUDGE.queens(7), 7),
        )


@pytest.mark.parametrize("classes", sorted(JUDGE.PLANTED))
def test_the_hidden_colouring_has_no_excess(classes):
    graph = JUDGE.planted(classes, np.random.default_rng(classes))
    colours = np.arange(graph[0]) % classes
    assert TASK.score(colours, case_of(graph, classes))["excess"] == 0.0


@pytest.mark.parametrize("case", TASK.cases, ids=lambda case: case.name)
def test_no_colouring_of_networkx_beats_a_bound(case):
    graph = nx.Graph(case.given["edges"])
    colours = nx.greedy_color(graph, strategy="DSATUR")
    used = [colours[v] for v in range(case.given["n"])]
    excess = TASK.score(used, case)[case.hidden["family"]]
    bound = case.hidden["bound"]
    assert excess == pytest.approx(100 * (max(used) + 1 - bound) / bound)
    assert excess >= 0


def test_shuffling_keeps_the_graph():
    case = cases_of("queens")[0]
    plain = nx.Graph(JUDGE.queens(6)[1])
    assert sorted(dict(plain.degree).values()) == sorted(
        dict(nx.Graph(case.given["edges"]).degree).values()
    )
    assert sorted(map(sorted, case.given["edges"])) != sorted(map(sorted, plain.edges))


def test_the_runner_follows_the_priority_and_tells_what_it_says_it_tells():
    # A path 0 - 1 - 2 and a vertex 3 by itself.
    seen = []

    def priority(saturation, degree, open_degree):
        seen.append([part.tolist() for part in (saturation, degree, open_degree)])
        return degree * 10 + saturation

    colours = RUN(SimpleNamespace(priority=priority), {"n": 4, "edges": [(0, 1), (1, 2)]})
    assert colours.tolist() == [1, 0, 1, 0]
    # Vertex 1 first, then 0, then 2, then 3.
    assert seen == [
        [[0, 0, 0, 0], [1, 2, 1, 0], [1, 2, 1, 0]],
        [[1, 1, 0], [1, 1, 0], [0, 0, 0]],
        [[1, 0], [1, 0], [0, 0]],
        [[0], [0], [0]],
    ]


def slow_greedy(n, edges):
    """Return colours in the order of the vertices, by the book."""
    colours = []
    for v in range(n):
        around = {colours[a + b - v] for a, b in edges if v in (a, b) and a + b - v < v}
        colours.append(next(c for c in range(n) if c not in around))
    return colours


@pytest.mark.parametrize("case", TASK.cases[::3], ids=lambda case: case.name)
def test_equal_priorities_colour_in_the_order_of_the_vertices(case):
    program = program_of("import numpy as np\ndef priority(s, d, o): return np.zeros(len(s))")
    colours = RUN(program, case.given).tolist()
    assert colours == slow_greedy(case.given["n"], case.given["edges"])


def test_a_priority_of_the_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"shape \(\), needed is \(2,\)"):
        RUN(program_of("def priority(s, d, o): return 1"), {"n": 2, "edges": [(0, 1)]})


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not a flat sequence of 3 integers"),
        ("abc", "not a flat sequence of 3 integers"),
        ({}, "not a flat sequence of 3 integers"),
        ([0, 1], "not a flat sequence of 3 integers"),
        ([[0, 1, 2]], "not a flat sequence of 3 integers"),
        ([0, 1, [2]], "not a flat sequence of 3 integers"),
        ([0.0, 1.0, 2.0], "not a flat sequence of 3 integers"),
        ([0, 1, math.nan], "not a flat sequence of 3 integers"),
        ([0, 1, math.inf], "not a flat sequence of 3 integers"),
        ([True, False, True], "not a flat sequence of 3 integers"),
        (["0", "1", "2"], "not a flat sequence of 3 integers"),
        ([0, 1, 10**400], "not a flat sequence of 3 integers"),
        ([0, 0, 1], "the neighbours 0 and 1 have the same colour"),
        ([-1, 5, -1], "the neighbours 0 and 2 have the same colour"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, case_of((3, [(0, 1), (0, 2), (1, 2)]), 3))
    assert says in str(caught.value)


def test_colours_are_names_not_numbers():
    case = case_of((3, [(0, 1), (0, 2), (1, 2)]), 3)
    assert TASK.score([-7, 10**15, 0], case) == {"excess": 0.0, "largest_class": 1.0}
