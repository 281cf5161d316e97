"""The set utility against volumes of polytopes, enumeration, closed forms and many draws."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.spatial import ConvexHull, HalfspaceIntersection

from vpo import exact, simplex
from vpo.expected import Preference, expected_max
from vpo.utility import set_utility

DRAWS = 1_000_000


def by_volume(rows: np.ndarray) -> float:
    """R(S) for uniform weights: T less the volume between the upper envelope and T, times (k-1)!"""
    k = rows.shape[1]
    top = rows.max() + 1.0
    # Unknowns (w_1 .. w_{k-1}, t); w_k is the rest. A row "a.x + b <= 0" each.
    halfspaces = [[*np.eye(k)[i] * -1.0, 0.0] for i in range(k - 1)]
    halfspaces.append([1.0] * (k - 1) + [0.0, -1.0])
    halfspaces.append([0.0] * (k - 1) + [1.0, -top])
    halfspaces += [[*(row[:-1] - row[-1]), -1.0, row[-1]] for row in rows]
    inner = np.full(k, 1.0 / k)
    inner[-1] = 0.5 * (top + (rows @ np.full(k, 1.0 / k)).max())
    corners = HalfspaceIntersection(np.array(halfspaces), inner).intersections
    return top - math.factorial(k - 1) * ConvexHull(corners).volume


def by_draws(rows: np.ndarray, rng: np.random.Generator, alpha: float = 1.0) -> float:
    weights = rng.dirichlet(np.full(rows.shape[1], alpha), DRAWS)
    return float((weights @ rows.T).max(axis=1).mean())


@pytest.mark.parametrize(("k", "m"), [(2, 5), (3, 2), (3, 9), (4, 2), (4, 7), (5, 2), (5, 6)])
def test_agrees_with_the_volume_of_a_polytope(k: int, m: int) -> None:
    rng = np.random.default_rng(k * 10 + m)
    # On a sphere every row is on the front, so that none is pruned.
    batch = np.abs(rng.normal(size=(5, m, k)))
    batch /= np.linalg.norm(batch, axis=2, keepdims=True)
    result = set_utility(batch)
    closed = k <= 3 or m == 2
    for i, rows in enumerate(batch):
        error = abs(result.value[i] - by_volume(rows))
        assert error < (1e-9 if closed else 1e-3)
        assert error <= max(1e-9, 4.0 * result.standard_error[i])
    assert (result.standard_error == 0.0).all() == closed


@pytest.mark.parametrize(
    ("m", "k", "alpha"),
    [
        (2, 7, 1.0),
        (2, 5, 3.0),
        (5, 2, 0.4),
        (5, 2, 2.5),
        (4, 3, 1.0),
        (6, 4, 1.0),
        (3, 8, 0.5),
        (4, 6, 4.0),
    ],
)
def test_agrees_with_a_million_draws(m: int, k: int, alpha: float) -> None:
    rng = np.random.default_rng(m + k)
    rows = rng.random((m, k))
    assert set_utility(rows, alpha=alpha).value == pytest.approx(
        by_draws(rows, rng, alpha), abs=1e-3
    )


@pytest.mark.parametrize("k", range(1, 9))
def test_unit_vectors_are_worth_a_harmonic_number(k: int) -> None:
    harmonic = sum(1.0 / i for i in range(1, k + 1)) / k
    result = set_utility(np.eye(k))
    assert result.value == pytest.approx(harmonic, abs=1e-9 if k <= 3 else 1e-3)


def test_three_corners_of_four_lose_to_a_generalist() -> None:
    corners = set_utility(np.eye(4)[:3])
    assert corners.value == pytest.approx(11 / 24, abs=3e-4)
    assert corners.value < set_utility(np.full((1, 4), 0.5)).value == pytest.approx(0.5, abs=1e-12)


def test_one_answer_is_its_mean_and_one_objective_its_maximum() -> None:
    rng = np.random.default_rng(1)
    rows = rng.random((20, 1, 6))
    np.testing.assert_allclose(set_utility(rows, alpha=0.3).value, rows.mean((1, 2)), atol=1e-12)
    single = rng.random((20, 5, 1))
    np.testing.assert_array_equal(set_utility(single).value, single.max((1, 2)))


def test_two_rows_by_enumerated_orders_of_the_race() -> None:
    # Independent route: E (w.c)_+ = sum over i of c_i^k / (k prod_{j != i} (c_i - c_j)), c_i > 0.
    rng = np.random.default_rng(2)
    for k in (2, 3, 5, 8):
        a, b = rng.random(k), rng.random(k)
        c = a - b
        excess = (
            sum(
                c[i] ** k / np.prod([c[i] - c[j] for j in range(k) if j != i])
                for i in range(k)
                if c[i] > 0
            )
            / k
        )
        assert set_utility([a, b]).value == pytest.approx(b.mean() + excess, abs=1e-9)


def test_two_rows_with_ties_and_zeros() -> None:
    rows = np.array([[1.0, 1.0, 0.0, 0.0, 0.5], [0.0, 0.0, 1.0, 1.0, 0.5]])
    rng = np.random.default_rng(3)
    assert exact.best_of_two(rows[None])[0] == pytest.approx(by_draws(rows, rng), abs=1e-3)
    # Nearly tied parts give nearly the same number: nothing cancels.
    moved = rows + 1e-13 * rng.random(rows.shape)
    assert exact.best_of_two(moved[None])[0] == pytest.approx(
        exact.best_of_two(rows[None])[0], abs=1e-12
    )


@pytest.mark.parametrize("k", [2, 3])
def test_three_rows_on_one_line_partition_the_simplex(k: int) -> None:
    ends = np.eye(k)[:2]
    middle = ends.mean(axis=0, keepdims=True)
    two, three = set_utility(ends).value, set_utility(np.concatenate([ends, middle])).value
    assert three == pytest.approx(two, abs=1e-12)


def test_large_sets_of_three_objectives() -> None:
    rng = np.random.default_rng(4)
    batch = np.abs(rng.normal(size=(3, 40, 3)))
    batch /= np.linalg.norm(batch, axis=2, keepdims=True)
    for rows, value in zip(batch, set_utility(batch).value, strict=True):
        assert value == pytest.approx(by_volume(rows), abs=1e-9)


@pytest.mark.parametrize("shape", [(3, 2), (3, 3), (4, 5), (6, 16)])
def test_invariances(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    rows = rng.random(shape)
    value = set_utility(rows).value
    assert set_utility(rows[::-1]).value == pytest.approx(value, abs=1e-12)
    assert set_utility(rows + 0.25).value == pytest.approx(value + 0.25, abs=1e-12)
    assert set_utility(3.0 * rows).value == pytest.approx(3.0 * value, abs=1e-12)
    columns = set_utility(rows[:, rng.permutation(shape[1])])
    assert columns.value == pytest.approx(value, abs=max(1e-12, 8 * columns.standard_error))


@pytest.mark.parametrize("shape", [(3, 2), (3, 3), (4, 5), (2, 16)])
def test_a_repeated_or_dominated_answer_changes_no_bit(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(6)
    rows = rng.random(shape)
    value = set_utility(rows).value
    for extra in (rows[1:2], 0.9 * rows[1:2], np.zeros((1, shape[1]))):
        assert set_utility(np.concatenate([rows, extra])).value == value


def test_limits_of_alpha() -> None:
    rng = np.random.default_rng(7)
    rows = rng.random((4, 5))
    coverage, best = rows.max(axis=0).mean(), rows.mean(axis=1).max()
    assert set_utility(rows, alpha=0.01).value == pytest.approx(coverage, abs=0.02)
    assert set_utility(rows, alpha=1e5).value == pytest.approx(best, abs=2e-3)


def test_the_family_of_utilities() -> None:
    rng = np.random.default_rng(8)
    batch = rng.random((30, 3, 4))
    u = set_utility(batch)
    np.testing.assert_allclose(u.mean, batch.mean((1, 2)), atol=1e-12)
    np.testing.assert_allclose(u.best, batch.mean(2).max(1), atol=1e-12)
    np.testing.assert_allclose(u.specialisation, u.expected_max - u.best, atol=1e-12)
    assert (u.specialisation >= 0).all()
    np.testing.assert_array_equal(u.value, u.expected_max)
    for lb, ld in itertools.product((0.0, 1.0, 2.5), repeat=2):
        expected = u.mean + lb * (u.best - u.mean) + ld * (u.expected_max - u.best)
        value = set_utility(batch, lambda_b=lb, lambda_d=ld).value
        np.testing.assert_allclose(value, expected, atol=1e-12)


def test_ragged_batches_equal_their_members() -> None:
    rng = np.random.default_rng(9)
    sets = [rng.random((m, k)) for m, k in [(3, 4), (1, 4), (2, 3), (5, 2), (3, 4), (4, 16)]]
    together = set_utility([*sets, []])
    assert together.value[-1] == 0.0
    for i, rows in enumerate(sets):
        alone = set_utility(rows)
        assert together.value[i] == pytest.approx(float(alone.value), abs=1e-14)
        assert together.standard_error[i] == pytest.approx(float(alone.standard_error), abs=1e-12)
    assert set_utility([]).value.shape == (0,)


@pytest.mark.parametrize(("m", "p", "k"), [(1, 1, 6), (3, 2, 4), (2, 4, 3), (3, 1, 2), (4, 3, 8)])
def test_gain_over_references(m: int, p: int, k: int) -> None:
    rng = np.random.default_rng(10 + m)
    rows, references = rng.random((m, k)), rng.random((p, k))
    weights = rng.dirichlet(np.ones(k), DRAWS)
    scores, floor = weights @ rows.T, (weights @ references.T).max(axis=1, keepdims=True)
    gains = np.maximum(scores - floor, 0.0)
    u = set_utility(rows, references=references)
    assert u.value == pytest.approx(gains.max(axis=1).mean(), abs=1e-3)
    assert u.mean == pytest.approx(gains.mean(), abs=1e-3)
    assert u.best == pytest.approx(gains.mean(axis=0).max(), abs=1e-3)


@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_copies_of_references_are_worth_nothing(k: int) -> None:
    rng = np.random.default_rng(11)
    references = rng.random((4, k))
    copies = set_utility(
        [references[:2], references[::-1], 0.5 * references[:1]], references=[references] * 3
    )
    assert (copies.value == 0.0).all()
    assert (copies.standard_error == 0.0).all()


def test_chebyshev_is_the_r2_indicator() -> None:
    rng = np.random.default_rng(12)
    rows = rng.random((4, 5))
    weights = rng.dirichlet(np.ones(5), DRAWS // 2)
    scores = np.stack([1.0 - (weights * (1.0 - row)).max(axis=1) for row in rows], axis=1)
    u = set_utility(rows, scalarizer="chebyshev")
    assert u.value == pytest.approx(scores.max(axis=1).mean(), abs=1e-3)
    assert u.mean == pytest.approx(scores.mean(), abs=1e-3)
    # A row in a dent of the front is invisible to linear weights, but not to these.
    front = np.array([[1.0, 0.0], [0.0, 1.0], [0.4, 0.4]])
    assert set_utility(front).value == set_utility(front[:2]).value
    for_dent = set_utility(front, scalarizer="chebyshev").value
    assert for_dent > set_utility(front[:2], scalarizer="chebyshev").value + 0.01


def test_hypervolume_in_closed_form_and_by_directions() -> None:
    front = np.array([[0.9, 0.2], [0.5, 0.6], [0.1, 0.8]])
    assert set_utility(front, scalarizer="hypervolume").value == pytest.approx(
        0.1 * 0.8 + 0.4 * 0.6 + 0.4 * 0.2, abs=1e-12
    )
    rng = np.random.default_rng(13)
    rows = np.abs(rng.normal(size=(10, 4)))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    by_directions = set_utility(rows, scalarizer="hypervolume", n_weights=4096)
    assert by_directions.standard_error > 0.0
    inside = (rng.random((300_000, 1, 4)) <= rows).all(axis=2).any(axis=1).mean()
    assert by_directions.value == pytest.approx(inside, abs=3e-3)
    few = set_utility(rows[:8], scalarizer="hypervolume")
    assert few.standard_error == 0.0
    inside = (rng.random((300_000, 1, 4)) <= rows[:8]).all(axis=2).any(axis=1).mean()
    assert few.value == pytest.approx(inside, abs=3e-3)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.0])
def test_nodes_follow_the_dirichlet_distribution(alpha: float) -> None:
    k = 5
    weights = simplex.dirichlet(k, alpha, 4096, 0).weights
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    assert weights.min() >= 0.0
    np.testing.assert_allclose(weights.mean(axis=0), 1.0 / k, atol=1e-3)
    # Cov of Dir(a, ..., a): (k delta_ij - 1) / (k^2 (k a + 1)).
    expected = (k * np.eye(k) - 1.0) / (k**2 * (k * alpha + 1.0))
    np.testing.assert_allclose(np.cov(weights.T), expected, atol=2e-3)


@pytest.mark.parametrize("k", [1, 2, 6, 40])
def test_quadrature_is_exact_for_linear_functions(k: int) -> None:
    rng = np.random.default_rng(14)
    slopes = rng.normal(size=(7, k))
    for rule, mean in (
        (simplex.dirichlet(k, 0.7, 64, 3), 1.0 / k),
        (
            simplex.orthant(k, 64, 3),
            math.gamma(k / 2) / math.sqrt(math.pi) / math.gamma((k + 1) / 2),
        ),
    ):
        replicates = rule.replicates(2.0 + slopes @ rule.weights.T)
        np.testing.assert_allclose(
            replicates, (2.0 + slopes.sum(1) * mean)[:, None] + np.zeros(8), atol=1e-9
        )


def test_the_standard_error_covers_the_error() -> None:
    rng = np.random.default_rng(15)
    batch = rng.random((200, 4, 5))
    truth = set_utility(batch, n_weights=1 << 15, seed=99).value
    result = set_utility(batch, n_weights=256)
    error = np.abs(result.value - truth)
    assert (error <= 2.0 * result.standard_error).mean() > 0.9
    # Conservative, but of the right order.
    assert 1.0 < result.standard_error.mean() / np.sqrt((error**2).mean()) < 6.0
    assert np.sqrt((error**2).mean()) < 1e-3


def test_seeds_change_the_nodes_and_nothing_else_does() -> None:
    rows = np.random.default_rng(16).random((4, 6))
    first = set_utility(rows, seed=1)
    assert set_utility(rows, seed=1).value == first.value
    assert set_utility(rows, seed=2).value != first.value
    assert set_utility(rows, seed=2).value == pytest.approx(first.value, abs=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: set_utility(np.zeros((2, 2, 2, 2))), "shape"),
        (lambda: set_utility([[[0.1, np.nan]]]), r"rewards\[0\]: NaN"),
        (lambda: set_utility([[[0.1, -0.5]], []]), "negative"),
        (lambda: set_utility(np.eye(2), alpha=0.0), "alpha"),
        (lambda: set_utility(np.eye(4), n_weights=100), "power of 2"),
        (lambda: set_utility(np.eye(2), scalarizer="max"), "allowed"),  # type: ignore[arg-type]
        (lambda: set_utility(np.eye(2), scalarizer="hypervolume", alpha=2.0), "alpha"),
        (lambda: set_utility([np.eye(2)], references=[np.eye(3)]), "3 objectives"),
        (lambda: set_utility([np.eye(2)] * 2, references=[np.eye(2)]), "1 given for 2"),
        (lambda: set_utility([np.zeros(3), np.zeros((2, 3))]), "shape"),
    ],
)
def test_bad_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()


def test_expected_max_of_empty_sets() -> None:
    assert (expected_max(np.empty((3, 0, 4)), Preference()) == 0.0).all()


def test_the_import_is_light() -> None:
    code = (
        "import sys, vpo.utility, vpo.advantages, numpy\n"
        "vpo.utility.set_utility(numpy.eye(3))\n"
        "heavy = ('torch', 'transformers', 'scipy.stats', 'matplotlib')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
