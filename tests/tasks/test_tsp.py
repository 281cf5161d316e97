"""The tour judge against integer programming, hand-made tours and answers that are none."""

import math
from itertools import pairwise, permutations
from types import SimpleNamespace

import numpy as np
import pytest

from evolve.task import Case, Invalid, load_task
from tests.tasks.loading import judge_module, program_of, runner_of
from tests.tasks.shortest_tour import length_of, shortest_tour

TASK = load_task("tsp")
JUDGE = judge_module("tsp")
RUN = runner_of(TASK)

SQUARE = Case(
    "square",
    {"cities": [[0, 0], [3, 4], [3, 0], [0, 4]]},
    {"family": "excess", "shortest": 14.0},
)


def test_the_solver_agrees_with_going_through_all_tours():
    rng = np.random.default_rng(0)
    for n in (4, 7, 8):
        cities = rng.integers(0, 30, (n, 2))
        shortest = min(length_of(cities, [0, *rest]) for rest in permutations(range(1, n)))
        found = shortest_tour(cities)
        assert sorted(found) == list(range(n))
        assert length_of(cities, found) == pytest.approx(shortest, abs=1e-9)


@pytest.mark.parametrize("family", JUDGE.FAMILIES)
def test_the_shortest_tour_of_a_map_has_no_excess(family):
    for case in TASK.cases:
        if case.hidden["family"] == family:
            tour = shortest_tour(np.array(case.given["cities"]))
            scores = TASK.score(tour, case)
            assert 0.0 <= scores[family] < 1e-7
            worse = [tour[1], tour[0], *tour[2:]]
            assert TASK.score(worse, case)[family] > 0.01


def test_a_tour_by_hand():
    assert TASK.score([0, 2, 1, 3], SQUARE) == {"excess": 0.0, "longest_step": 4 / 3.5}
    crossed = TASK.score([0, 1, 2, 3], SQUARE)
    assert crossed["excess"] == pytest.approx(100 * (18 - 14) / 14)
    # Where a tour begins and which way it goes does not matter.
    assert TASK.score([3, 1, 2, 0], SQUARE)["excess"] == 0.0


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not a list of city numbers"),
        ("0123", "not a list of city numbers"),
        (np.array([0, 1, 2, 3]), "not a list of city numbers"),
        ([0, 1, 2, 3.0], "not a list of city numbers"),
        ([0, 1, 2, True], "not a list of city numbers"),
        ([0, 1, 2, math.nan], "not a list of city numbers"),
        ([0, 1, [2], 3], "not a list of city numbers"),
        ([], "does not hold each of the 4 cities once"),
        ([0, 1, 2], "does not hold each of the 4 cities once"),
        ([0, 1, 2, 2], "does not hold each of the 4 cities once"),
        ([0, 1, 2, 4], "does not hold each of the 4 cities once"),
        ([0, 1, 2, -1], "does not hold each of the 4 cities once"),
        ([0, 1, 2, 3, 0], "does not hold each of the 4 cities once"),
        ([0, 1, 2, 10**400], "does not hold each of the 4 cities once"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, SQUARE)
    assert says in str(caught.value)


def test_the_runner_inserts_where_it_costs_least_and_tells_what_it_says_it_tells():
    seen = []

    def priority(longer, nearest, centre, done):
        seen.append([np.asarray(part).round(6).tolist() for part in (longer, nearest, centre)])
        seen[-1].append(done)
        return -longer

    # Two ends of a line, a city on it, and one off it; the middle of all is (4, 1).
    cities = [[0, 0], [10, 0], [2, 0], [4, 4]]
    tour = RUN(SimpleNamespace(priority=priority), {"cities": cities})
    off = math.hypot(4, 4) + math.hypot(6, 4) - 10
    longer, nearest, centre, done = seen[0]
    assert longer == pytest.approx([0.0, off], abs=1e-6)
    assert nearest == pytest.approx([2.0, math.hypot(4, 4)], abs=1e-6)
    assert centre == pytest.approx([math.hypot(2, 1), 3.0], abs=1e-6)
    assert done == 0.5
    assert [step[-1] for step in seen] == [0.5, 0.75]
    closed = [*tour, tour[0]]
    neighbours = {frozenset(pair) for pair in pairwise(closed)}
    # The city off the line goes into the long way back, not between 0 and 2.
    assert neighbours == {frozenset(p) for p in ((0, 2), (2, 1), (1, 3), (3, 0))} or neighbours == {
        frozenset(p) for p in ((0, 2), (2, 3), (3, 1), (1, 0))
    }


@pytest.mark.parametrize("case", TASK.cases[::3], ids=lambda case: case.name)
def test_cheapest_insertion_visits_every_city(case):
    program = program_of("def priority(longer, nearest, centre, done): return -longer")
    scores = TASK.score(RUN(program, case.given), case)
    # Rosenkrantz, Stearns and Lewis 1977: at most twice the shortest; from the farthest pair too.
    assert 0.0 < scores[case.hidden["family"]] < 100.0


def test_a_priority_of_the_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"shape \(\), needed is \(2,\)"):
        RUN(program_of("def priority(a, b, c, d): return 1"), SQUARE.given)
