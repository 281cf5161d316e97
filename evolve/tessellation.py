"""Cells of the behaviour space: where in the archive a program belongs.

Both kinds have bounds that are fixed at the start, so the cell is a pure function of the
descriptors. A grid clips what lies outside its bounds into the edge cells; a Voronoi tessellation
gives it to the nearest centroid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: An archive keeps one integer a cell; a finer grid is a mistake, and a CVT the remedy.
MAX_CELLS = 2**24

# Share of a cell by which a point below a boundary still counts as on it: 0.7 of ten bins is bin
# 7, although 10 * 0.7 falls just short of it for some bounds.
_EDGE = 1e-6


class Grid:
    """Boxes of equal size.

    Cell numbers run in C order: the last axis is the fastest, as in ``np.ravel_multi_index``.

    Args:
        lows: Lower bounds (d,), in the units of the descriptors.
        highs: Upper bounds (d,).
        bins: Number of cells along each axis (d,), each at least 1.

    Raises:
        ValueError: If the bounds or the bins do not make a grid of at most 2^24 cells.
    """

    def __init__(self, lows: npt.ArrayLike, highs: npt.ArrayLike, bins: Sequence[int]) -> None:
        self.lows, self.highs = _bounds(lows, highs)
        self.bins = tuple(int(count) for count in bins)
        if len(self.bins) != self.d or min(self.bins) < 1:
            raise ValueError(f"bins is {self.bins}: {self.d} numbers of at least 1 are needed")
        self.n_cells = math.prod(self.bins)
        if self.n_cells > MAX_CELLS:
            raise ValueError(
                f"bins {self.bins} make {self.n_cells} cells, at most 2^24 are allowed"
            )
        self._axes = tuple(
            zip(self.lows.tolist(), (self.highs - self.lows).tolist(), self.bins, strict=True)
        )

    @property
    def d(self) -> int:
        """Number of axes."""
        return len(self.lows)

    def cell_of(self, points: npt.ArrayLike) -> Ints:
        """Return the cell numbers (n,) of ``points`` (n, d).

        Raises:
            ValueError: If the shape is another or a number is not finite.
        """
        P = _points(points, self.d)
        cells = np.zeros(len(P), dtype=np.int64)
        for axis, (low, span, bins) in enumerate(self._axes):
            # The same operations in the same order as in locate(), so both agree to the last bit.
            with np.errstate(over="ignore"):
                place = bins * (P[:, axis] - low) / span + _EDGE
            cells *= bins
            cells += np.minimum(np.maximum(place, 0.0), bins - 1).astype(np.int64)
        return cells

    def locate(self, point: Sequence[float]) -> int:
        """Return the cell number of one point of d finite floats, which are not checked."""
        cell = 0
        for value, (low, span, bins) in zip(point, self._axes, strict=True):
            place = bins * (value - low) / span + _EDGE
            cell *= bins
            if place >= bins:
                cell += bins - 1
            elif place > 0.0:
                cell += int(place)
        return cell

    def fingerprint(self) -> bytes:
        """Return bytes that are equal for equal grids only."""
        return b"grid" + _packed(self.lows, self.highs, np.array(self.bins))


class Cvt:
    """Voronoi cells of given centroids (Vassiliades et al. 2018, IEEE TEVC, "Using centroidal
    Voronoi tessellations to scale up MAP-Elites").

    Distances are Euclidean after scaling the bounds to the unit box: units do not matter. With at
    most three axes most look-ups go through a table of boxes, each with the few centroids that can
    be nearest to a point in it; the others ask a k-d tree. Which of the two is asked depends on the
    point alone.

    Args:
        lows: Lower bounds (d,), in the units of the descriptors.
        highs: Upper bounds (d,).
        centroids: (n_cells, d), in the same units, all different.

    Raises:
        ValueError: If the bounds or the centroids are unusable.
    """  # noqa: D205

    def __init__(self, lows: npt.ArrayLike, highs: npt.ArrayLike, centroids: npt.ArrayLike) -> None:
        # Here and not above: importing scipy.spatial takes longer than printing a help text.
        from scipy.spatial import cKDTree

        self.lows, self.highs = _bounds(lows, highs)
        self.centroids = _points(centroids, self.d, "centroids").copy()
        self.n_cells = len(self.centroids)
        if not 1 <= self.n_cells <= MAX_CELLS:
            raise ValueError(f"centroids holds {self.n_cells} cells, 1 to 2^24 are allowed")
        if len(np.unique(self.centroids, axis=0)) < self.n_cells:
            raise ValueError("centroids are not all different")
        self._spans = self.highs - self.lows
        self._scaled = (self.centroids - self.lows) / self._spans
        self._axes = tuple(zip(self.lows.tolist(), self._spans.tolist(), strict=True))
        self._tree: Any = cKDTree(self._scaled)
        self._per_axis = 0
        if self.d <= _TABLE_MAX_AXES:
            self._make_table()

    @property
    def d(self) -> int:
        """Number of axes."""
        return len(self.lows)

    def cell_of(self, points: npt.ArrayLike) -> Ints:
        """Return the numbers (n,) of the centroids nearest to ``points`` (n, d).

        Raises:
            ValueError: If the shape is another or a number is not finite.
        """
        scaled = self._scale(_points(points, self.d))
        if not self._per_axis:
            return self._ask_tree(scaled)
        inside = ((scaled >= 0.0) & (scaled <= 1.0)).all(axis=1)
        cells = np.empty(len(scaled), dtype=np.int64)
        if not inside.all():
            cells[~inside] = self._ask_tree(scaled[~inside])
        rows = scaled[inside]
        box = np.zeros(len(rows), dtype=np.int64)
        for axis in range(self.d):
            place = (rows[:, axis] * self._per_axis).astype(np.int64)
            box = box * self._per_axis + np.minimum(place, self._per_axis - 1)
        nearest, least = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), math.inf)
        # Candidate by candidate, as in locate(): an argmin over short rows is much slower.
        for candidates, centroids in zip(self._table, self._table_centroids, strict=True):
            distance = np.zeros(len(rows))
            for axis, coordinates in enumerate(centroids):
                gap = coordinates[box] - rows[:, axis]
                distance += gap * gap
            nearer = distance < least
            np.copyto(least, distance, where=nearer)
            np.copyto(nearest, candidates[box], where=nearer)
        cells[inside] = nearest
        return cells

    def locate(self, point: Sequence[float]) -> int:
        """Return the cell number of one point of d finite floats, which are not checked."""
        per_axis = self._per_axis
        if per_axis and len(point) == 2:
            return self._locate_in_plane(point[0], point[1])
        box = 0
        scaled = []
        for value, (low, span) in zip(point, self._axes, strict=True):
            place = (value - low) / span
            if not (per_axis and 0.0 <= place <= 1.0):
                return int(self._ask_tree(self._scale(np.array([point])))[0])
            scaled.append(place)
            box = box * per_axis + min(int(place * per_axis), per_axis - 1)
        least, cell = math.inf, -1
        for candidate, centroid in self._lists[box]:
            distance = 0.0
            for there, here in zip(centroid, scaled, strict=True):
                gap = there - here
                distance += gap * gap
            if distance < least:
                least, cell = distance, candidate
        return cell

    def _locate_in_plane(self, across: float, up: float) -> int:
        """Return what :meth:`locate` does for two axes, the usual number, at half the price."""
        (low_x, span_x), (low_y, span_y) = self._axes
        x, y = (across - low_x) / span_x, (up - low_y) / span_y
        if not (0.0 <= x <= 1.0 and 0.0 <= y <= 1.0):
            return int(self._ask_tree(self._scale(np.array([[across, up]])))[0])
        last = self._per_axis - 1
        column, row = int(x * self._per_axis), int(y * self._per_axis)
        box = (column if column < last else last) * self._per_axis + (row if row < last else last)
        least, cell = math.inf, -1
        for candidate, (there_x, there_y) in self._lists[box]:
            gap_x, gap_y = there_x - x, there_y - y
            distance = gap_x * gap_x + gap_y * gap_y
            if distance < least:
                least, cell = distance, candidate
        return cell

    def fingerprint(self) -> bytes:
        """Return bytes that are equal for equal tessellations only."""
        return b"cvt" + _packed(self.lows, self.highs, self.centroids)

    def _scale(self, P: Floats) -> Floats:
        with np.errstate(over="ignore"):
            # Squares of larger coordinates overflow, and then no centroid is nearer than another.
            return np.clip((P - self.lows) / self._spans, -1e100, 1e100)

    def _ask_tree(self, scaled: Floats) -> Ints:
        return np.asarray(self._tree.query(scaled)[1], dtype=np.int64)

    def _make_table(self) -> None:
        per_axis = math.ceil((_BOXES_PER_CELL * self.n_cells) ** (1 / self.d))
        middles = (np.arange(per_axis) + 0.5) / per_axis
        boxes = np.stack(np.meshgrid(*[middles] * self.d, indexing="ij"), axis=-1)
        boxes = boxes.reshape(-1, self.d)
        # A box with middle p and half diagonal h whose nearest centroid is at distance D from p:
        # no point of the box is farther than D + h from that one, so nothing beyond D + 2 h of p
        # is the nearest of any. The slack covers the rounding of points on the box's edge.
        half = math.sqrt(self.d) / (2 * per_axis)
        reach = self._tree.query(boxes)[0] + 2 * half + 1e-9
        near = self._tree.query_ball_point(boxes, reach, return_sorted=True)
        widest = max(len(candidates) for candidates in near)
        if widest > _TABLE_MAX_WIDTH:
            return  # crowded centroids: the tree is as good
        # Candidate by candidate and box by box; short lists end with a centroid at infinity. Sorted
        # candidates give ties to the lowest number.
        self._table = np.full((widest, len(boxes)), self.n_cells, dtype=np.int64)
        for box, candidates in enumerate(near):
            self._table[: len(candidates), box] = candidates
        far = np.vstack([self._scaled, np.full(self.d, math.inf)])
        self._table_centroids = np.ascontiguousarray(far[self._table].transpose(0, 2, 1))
        rows = self._scaled.tolist()
        self._lists = [[(c, tuple(rows[c])) for c in candidates] for candidates in near]
        self._per_axis = per_axis


_TABLE_MAX_AXES = 3
_BOXES_PER_CELL = 8
_TABLE_MAX_WIDTH = 64

Tessellation = Grid | Cvt


def make_cvt(
    lows: npt.ArrayLike, highs: npt.ArrayLike, n_cells: int, rng: np.random.Generator
) -> Cvt:
    """Return a tessellation into cells of nearly equal volume.

    Lloyd's k-means on points drawn uniformly within the bounds (Vassiliades et al. 2018, algorithm
    1), 50 points a cell and at least 10,000. It starts from points that are spread already, the
    additive recurrence R_d of Roberts (2018, "The unreasonable effectiveness of quasirandom
    sequences") with a random shift: in two dimensions the volumes then vary by 13 % after ten steps
    and by 28 % after forty from a random start.

    Args:
        lows: Lower bounds (d,).
        highs: Upper bounds (d,).
        n_cells: Number of cells, at least 1.
        rng: Draws the points.

    Raises:
        ValueError: If the bounds or the number of cells are unusable.
    """
    from scipy.spatial import cKDTree

    low, high = _bounds(lows, highs)
    if not 1 <= n_cells <= MAX_CELLS:
        raise ValueError(f"n_cells is {n_cells}, 1 to 2^24 are allowed")
    samples = rng.random((max(10_000, 50 * n_cells), len(low)))
    centroids = (rng.random(len(low)) + np.arange(n_cells)[:, None] * _recurrence(len(low))) % 1.0
    for _ in range(10):
        nearest = cKDTree(centroids).query(samples)[1]
        counts = np.bincount(nearest, minlength=n_cells)
        # A centroid without samples stays where it is.
        filled = counts > 0
        for axis in range(len(low)):
            sums = np.bincount(nearest, weights=samples[:, axis], minlength=n_cells)
            centroids[filled, axis] = sums[filled] / counts[filled]
    return Cvt(low, high, low + centroids * (high - low))


def _recurrence(d: int) -> Floats:
    """Return the steps 1/g, 1/g^2, ..., 1/g^d, where g > 1 solves g^(d + 1) = g + 1."""
    g = 1.5
    for _ in range(60):
        g = (1.0 + g) ** (1.0 / (d + 1))
    return np.asarray(g ** -np.arange(1.0, d + 1))


def _bounds(lows: npt.ArrayLike, highs: npt.ArrayLike) -> tuple[Floats, Floats]:
    low, high = np.array(lows, dtype=np.float64), np.array(highs, dtype=np.float64)
    if low.ndim != 1 or not low.size or low.shape != high.shape:
        raise ValueError(f"lows {low.shape} and highs {high.shape}: two arrays (d,) are needed")
    for axis, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        if not (a < b and math.isfinite(b - a)):
            raise ValueError(f"axis {axis}: low={a}, high={b}; finite low < high is needed")
    return low, high


def _points(points: npt.ArrayLike, d: int, name: str = "points") -> Floats:
    P = np.asarray(points, dtype=np.float64)
    if P.ndim != 2 or P.shape[1] != d:
        raise ValueError(f"{name} has shape {P.shape}, (n, {d}) is needed")
    if not np.isfinite(P).all():
        raise ValueError(f"{name} holds NaN or infinity, finite numbers are needed")
    return P


def _packed(*arrays: npt.NDArray[Any]) -> bytes:
    return b"".join(
        np.array(a.shape, dtype="<i8").tobytes() + a.astype("<f8").tobytes() for a in arrays
    )
