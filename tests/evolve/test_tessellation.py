"""Cells against brute force, and tessellations of equal cells."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolve.tessellation import Cvt, Grid, make_cvt

# The same examples every time, and no clock.
steady = settings(deadline=None, derandomize=True, max_examples=60)

finite = st.floats(-1e300, 1e300)


@pytest.fixture(scope="module")
def plane():
    return make_cvt([0, -5], [100, 5], 150, np.random.default_rng(0))


def nearest(cvt, points):
    """The nearest centroid in the unit box, by all distances."""
    span = cvt.highs - cvt.lows
    gaps = (np.asarray(points)[:, None] - cvt.centroids) / span
    return np.argmin(np.sum(gaps**2, axis=2), axis=1)


def test_grid_cells_count_in_c_order():
    grid = Grid([0, 0, 0], [1, 10, 100], (2, 3, 4))
    at = np.stack(np.meshgrid([0.25, 0.75], [1, 5, 9], [10, 30, 60, 90], indexing="ij"), axis=-1)
    assert grid.n_cells == 24
    assert grid.cell_of(at.reshape(-1, 3)).tolist() == list(range(24))


def test_a_point_on_a_boundary_belongs_to_the_cell_above():
    for low, high, bins in ((0.0, 1.0, 10), (-0.3, 0.4, 7), (1e-9, 1e-8, 13), (0.1, 1e6, 20)):
        grid = Grid([low], [high], (bins,))
        edges = np.linspace(low, high, bins + 1)
        assert grid.cell_of(edges[:, None]).tolist() == [*range(bins), bins - 1]


def test_outside_points_fall_into_the_edge_cells():
    grid = Grid([0, 0], [1, 1], (3, 3))
    far = [[-1e308, 0.5], [1e308, 0.5], [0.5, -7.0], [2.0, 2.0]]
    assert grid.cell_of(far).tolist() == [1, 7, 3, 8]


@steady
@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=20))
def test_one_grid_point_and_many_agree(points):
    grid = Grid([-2, 0.1], [3, 0.7], (17, 9))
    cells = grid.cell_of(points)
    assert [grid.locate(point) for point in points] == cells.tolist()
    assert cells.min() >= 0
    assert cells.max() < grid.n_cells


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
def test_voronoi_cells_are_those_of_the_nearest_centroid(d):
    rng = np.random.default_rng(d)
    lows, highs = -rng.random(d), 10.0 ** np.arange(d)
    cvt = Cvt(lows, highs, rng.uniform(lows, highs, (80, d)))
    points = rng.uniform(lows - highs / 4, highs * 1.25, (2000, d))
    points[:80] = cvt.centroids
    cells = cvt.cell_of(points)
    assert cells[:80].tolist() == list(range(80))
    np.testing.assert_array_equal(cells, nearest(cvt, points))
    assert [cvt.locate(point) for point in points.tolist()] == cells.tolist()


@steady
@given(st.tuples(finite, finite))
def test_a_single_point_anywhere_finds_the_cell_of_the_batch(plane, point):
    assert plane.locate(point) == plane.cell_of([point])[0]


def test_crowded_centroids_are_told_apart():
    rng = np.random.default_rng(1)
    crowd = 0.5 + 1e-6 * rng.random((300, 2))
    cvt = Cvt([0, 0], [1, 1], crowd)
    points = 0.5 + 1e-6 * rng.random((500, 2))
    np.testing.assert_array_equal(cvt.cell_of(points), nearest(cvt, points))


def test_a_centroidal_tessellation_has_even_cells(plane):
    rng = np.random.default_rng(2)
    points = rng.uniform(plane.lows, plane.highs, (60_000, 2))
    scattered = Cvt(plane.lows, plane.highs, rng.uniform(plane.lows, plane.highs, (150, 2)))
    even = np.bincount(plane.cell_of(points), minlength=150)
    uneven = np.bincount(scattered.cell_of(points), minlength=150)
    # Poisson noise alone gives 5 %; cells of random centroids vary by about 53 %.
    assert even.std() / even.mean() < 0.2 < uneven.std() / uneven.mean()
    assert (plane.centroids > plane.lows).all()
    assert (plane.centroids < plane.highs).all()


def test_centroids_on_a_line_are_the_middles_of_equal_intervals():
    cvt = make_cvt([0.0], [1.0], 4, np.random.default_rng(3))
    middles = [1 / 8, 3 / 8, 5 / 8, 7 / 8]
    np.testing.assert_allclose(np.sort(cvt.centroids[:, 0]), middles, atol=0.05)


def test_equal_generators_make_equal_tessellations(plane):
    again = make_cvt([0, -5], [100, 5], 150, np.random.default_rng(0))
    other = make_cvt([0, -5], [100, 5], 150, np.random.default_rng(1))
    assert again.fingerprint() == plane.fingerprint() != other.fingerprint()
    assert Grid([0], [1], (6,)).fingerprint() != Grid([0], [2], (6,)).fingerprint()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Grid([0, 0], [1], (2, 2)), "lows (2,) and highs (1,)"),
        (lambda: Grid([], [], ()), "(d,)"),
        (lambda: Grid([0, 1], [1, 1], (2, 2)), "axis 1: low=1.0, high=1.0"),
        (lambda: Grid([0], [float("nan")], (2,)), "axis 0"),
        (lambda: Grid([0, 0], [1, 1], (2,)), "bins is (2,)"),
        (lambda: Grid([0], [1], (0,)), "at least 1"),
        (lambda: Grid([0] * 8, [1] * 8, (10,) * 8), "100000000 cells"),
        (lambda: Cvt([0], [1], [[0.1], [0.1]]), "centroids are not all different"),
        (lambda: Cvt([0], [1], np.empty((0, 1))), "centroids holds 0 cells"),
        (lambda: Cvt([0], [1], [[0.1, 0.2]]), "centroids has shape (1, 2)"),
        (lambda: make_cvt([0], [1], 0, np.random.default_rng(0)), "n_cells is 0"),
        (lambda: Grid([0], [1], (3,)).cell_of([[np.inf]]), "points holds NaN or infinity"),
        (lambda: Grid([0], [1], (3,)).cell_of([0.5]), "points has shape (1,), (n, 1)"),
    ],
)
def test_bad_input_is_named_in_one_line(make, told):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared below
        make()
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
