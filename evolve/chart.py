"""The cells of an archive as shapes in a plane: what is drawn for two descriptors of many.

A grid projects to the boxes of the two axes, a tessellation of two descriptors to its Voronoi
cells. Where a tessellation has more, its cells overlap in the plane: pixels then stand for all
cells above them. One descriptor gives a strip. Units are those of the descriptors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from evolve.tessellation import Cvt, Grid, Tessellation

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Pixels along each axis, and points above each, where Voronoi cells have more than two axes.
PIXELS, DEPTH = 48, 64


@dataclass(frozen=True)
class Chart:
    """A plane of the behaviour space.

    Attributes:
        axes: The descriptors across and up; ``(0, None)`` is the strip of a single one.
        low: Lower corner; a strip runs from 0 to 1 upwards.
        high: Upper corner.
        shapes: Polygons, each (corners, 2).
        shapes_of: Cells (n,) -> the shapes (n, p) that show them, -1 for none.
    """

    axes: tuple[int, int | None]
    low: tuple[float, float]
    high: tuple[float, float]
    shapes: list[Floats]
    shapes_of: Callable[[Ints], Ints]

    def leaders(self, cells: Ints, scores: Floats) -> Ints:
        """Return for each shape the index of the best of the cells shown there, -1 without one.

        Args:
            cells: (n,) cell numbers.
            scores: (n,) what makes a cell better than another; the first wins ties.
        """
        found = np.full(len(self.shapes) + 1, -1, dtype=np.int64)
        order = np.lexsort((-np.arange(len(cells)), scores))
        # The best come last and overwrite the others; -1 falls into the spare place at the end.
        places = self.shapes_of(cells[order])
        found[places.reshape(-1)] = np.repeat(order, places.shape[1])
        return found[:-1]

    def values(self, cells: Ints, scores: Floats) -> Floats:
        """Return the best score that each shape shows, NaN for an empty one."""
        leaders = self.leaders(cells, scores)
        return np.where(leaders >= 0, np.append(scores, np.nan)[leaders], np.nan)


def charts(cells: Tessellation) -> list[Chart]:
    """Return one chart for every pair of descriptors, or the strip of a single one."""
    pairs: list[tuple[int, int | None]] = list(combinations(range(cells.d), 2))
    return [_chart(cells, axes) for axes in pairs or [(0, None)]]


def _chart(cells: Tessellation, axes: tuple[int, int | None]) -> Chart:
    x, y = axes
    low = (float(cells.lows[x]), 0.0 if y is None else float(cells.lows[y]))
    high = (float(cells.highs[x]), 1.0 if y is None else float(cells.highs[y]))
    if isinstance(cells, Grid):
        columns, rows = cells.bins[x], 1 if y is None else cells.bins[y]
        bins = cells.bins

        def shapes_of(numbers: Ints) -> Ints:
            places = np.unravel_index(numbers, bins)
            return np.asarray(places[x] * rows + (0 if y is None else places[y]))[:, None]

        return Chart(axes, low, high, _boxes(low, high, columns, rows), shapes_of)
    if y is None:
        return Chart(axes, low, high, _intervals(cells), lambda numbers: numbers[:, None])
    if cells.d == 2:
        return Chart(axes, low, high, _polygons(cells), lambda numbers: numbers[:, None])
    pixels = _pixels_of(cells, x, y)
    return Chart(axes, low, high, _boxes(low, high, PIXELS, PIXELS), lambda n: pixels[n])


def _boxes(
    low: tuple[float, float], high: tuple[float, float], columns: int, rows: int
) -> list[Floats]:
    across = np.linspace(low[0], high[0], columns + 1)
    up = np.linspace(low[1], high[1], rows + 1)
    return [
        np.array([(a, c), (b, c), (b, d), (a, d)])
        for a, b in pairwise(across)
        for c, d in pairwise(up)
    ]


def _intervals(cells: Cvt) -> list[Floats]:
    points = cells.centroids[:, 0]
    order = np.argsort(points)
    middles = (points[order][1:] + points[order][:-1]) / 2
    edges = np.concatenate([cells.lows, middles, cells.highs])
    shapes = [np.empty(0)] * len(points)
    for place, cell in enumerate(order):
        a, b = edges[place], edges[place + 1]
        shapes[cell] = np.array([(a, 0.0), (b, 0.0), (b, 1.0), (a, 1.0)])
    return shapes


def _polygons(cells: Cvt) -> list[Floats]:
    from scipy.spatial import Voronoi

    span = cells.highs - cells.lows
    points = (cells.centroids - cells.lows) / span
    # Each side of the unit box halves the way to a mirror image, so the box bounds every cell.
    mirrors = [points]
    for axis in (0, 1):
        for side in (0.0, 1.0):
            mirror = points.copy()
            mirror[:, axis] = 2 * side - mirror[:, axis]
            mirrors.append(mirror)
    diagram = Voronoi(np.concatenate(mirrors))
    shapes = []
    for number in range(cells.n_cells):
        corners = diagram.vertices[diagram.regions[diagram.point_region[number]]]
        shapes.append(cells.lows + np.clip(corners, 0.0, 1.0) * span)
    return shapes


def _pixels_of(cells: Cvt, x: int, y: int) -> Ints:
    """Return the pixels (n_cells, p) above which each cell lies, padded with -1."""
    from scipy.stats import qmc

    points = qmc.Halton(cells.d, scramble=False).random(DEPTH)
    middles = (np.arange(PIXELS) + 0.5) / PIXELS
    found = []
    for column in range(PIXELS):
        for row in range(PIXELS):
            points[:, x], points[:, y] = middles[column], middles[row]
            above = np.unique(cells.cell_of(cells.lows + points * (cells.highs - cells.lows)))
            found.append(np.stack([above, np.full(len(above), column * PIXELS + row)], axis=1))
    pairs = np.concatenate(found)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    counts = np.bincount(pairs[:, 0], minlength=cells.n_cells)
    places = np.full((cells.n_cells, max(1, int(counts.max()))), -1, dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places[pairs[:, 0], np.arange(len(pairs)) - starts[pairs[:, 0]]] = pairs[:, 1]
    return places
