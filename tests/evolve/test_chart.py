"""Shapes on a map: they tile the plane, and each shows the cells that lie there."""

import numpy as np
import pytest

from evolve.chart import PIXELS, charts
from evolve.history import nondominated
from evolve.tessellation import Grid, make_cvt


def cells_for(d, kind, n=24):
    lows, highs = [-1.0] * d, [3.0] * d
    if kind == "grid":
        return Grid(lows, highs, [3, 4, 5][:d])
    return make_cvt(lows, highs, n, np.random.default_rng(0))


def area(polygon):
    x, y = polygon[:, 0], polygon[:, 1]
    return 0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))


def holds(polygon, point):
    """Whether a point lies in a convex polygon."""
    edges = np.roll(polygon, -1, axis=0) - polygon
    to = point - polygon
    side = edges[:, 0] * to[:, 1] - edges[:, 1] * to[:, 0]
    return bool((side >= -1e-9).all() or (side <= 1e-9).all())


@pytest.mark.parametrize(
    ("d", "kind"), [(1, "grid"), (1, "cvt"), (2, "grid"), (2, "cvt"), (3, "grid")]
)
def test_shapes_tile_the_plane_and_a_point_lies_in_the_shape_of_its_cell(d, kind):
    cells = cells_for(d, kind)
    rng = np.random.default_rng(1)
    for chart in charts(cells):
        box = np.subtract(chart.high, chart.low)
        assert sum(map(area, chart.shapes)) == pytest.approx(box.prod())
        x, y = chart.axes
        for point in rng.uniform(-1, 3, (50, d)):
            (shape,) = chart.shapes_of(cells.cell_of(point[None]))[0]
            seen = (point[x], 0.5 if y is None else point[y])
            assert holds(chart.shapes[shape], np.array(seen))


def test_a_map_of_more_than_two_axes_shows_a_cell_wherever_it_is_below():
    cells = cells_for(3, "cvt")
    rng = np.random.default_rng(2)
    for chart in charts(cells):
        x, y = chart.axes
        missed = 0
        for point in rng.uniform(-1, 3, (200, 3)):
            pixel = ((point + 1) / 4 * PIXELS).astype(int)
            missed += pixel[x] * PIXELS + pixel[y] not in chart.shapes_of(
                cells.cell_of(point[None])
            )
        # Pixels are sampled in the middle and at 64 heights: a sliver can be missed.
        assert missed < 10


def test_the_best_of_the_cells_above_a_shape_is_shown():
    cells = cells_for(3, "grid")
    chart = charts(cells)[0]
    numbers = np.arange(cells.n_cells)
    scores = np.random.default_rng(3).random(cells.n_cells).round(1)
    values = chart.values(numbers, scores)
    by_hand = scores.reshape(3, 4, 5).max(axis=2).ravel()
    assert values == pytest.approx(by_hand)
    leaders = chart.leaders(numbers, scores)
    assert (leaders == scores.reshape(12, 5).argmax(axis=1) + 5 * np.arange(12)).all()
    some = chart.values(numbers[:5], scores[:5])
    assert np.isnan(some[1:]).all()
    assert some[0] == scores[:5].max()


def test_the_pareto_front_agrees_with_comparing_all_pairs():
    rng = np.random.default_rng(4)
    for k in (1, 2, 3, 5):
        rows = rng.integers(0, 4, (60, k)) / 4
        dominated = [
            any((other >= row).all() and (other > row).any() for other in rows) for row in rows
        ]
        assert (nondominated(rows) == ~np.array(dominated)).all()
