"""The archive as a map: every cell in the colour of the best mean reward found there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evolve.archive import Archive
from evolve.chart import Chart, charts
from evolve.history import History
from evolve.plots.style import EMPTY, MAP, label

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_archive(history: History) -> Figure:
    """Return a map for every island (rows) and pair of descriptors (columns), the best ringed."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    islands = list(history.state.islands)
    tables = [_best_of_cells(archive) for archive in islands]
    planes = charts(islands[0].cells)
    scores = np.concatenate([table[1] for table in tables])
    low, high = float(scores.min()), float(scores.max())
    scale = Normalize(low, high if high > low else low + 1e-9)
    figure = Figure(figsize=(4.6 * len(planes) + 0.6, 3.6 * len(islands)), layout="constrained")
    axes = figure.subplots(len(islands), len(planes), squeeze=False)
    for row, table in enumerate(tables):
        for column, plane in enumerate(planes):
            _draw_plane(axes[row, column], history, plane, table, scale)
            if len(islands) > 1:
                axes[row, column].set_title(f"island {row}")
    coverage = history.state.islands.metrics().coverage
    figure.suptitle(f"{history.task.name}: {coverage:.0%} of the cells are occupied")
    figure.colorbar(
        ScalarMappable(scale, MAP), ax=axes.ravel().tolist(), label="best mean reward in the cell"
    )
    return figure


def _best_of_cells(archive: Archive) -> tuple[Any, Any]:
    """Return the occupied cells (n,) and the best mean reward in each (n,)."""
    cells = np.asarray(archive.occupied(), dtype=np.int64)
    means = [archive.champion_rewards(int(cell)).mean(axis=1).max() for cell in cells]
    return cells, np.asarray(means)


def _draw_plane(
    axis: Any, history: History, plane: Chart, table: tuple[Any, Any], scale: Any
) -> None:
    from matplotlib import colormaps
    from matplotlib.collections import PolyCollection

    cells, scores = table
    values = plane.values(cells, scores)
    empty = np.isnan(values)
    colours = colormaps[MAP].with_extremes(bad=EMPTY)
    shapes = PolyCollection(
        plane.shapes, cmap=colours, norm=scale, edgecolors="white", linewidths=0.4
    )
    shapes.set_array(np.ma.masked_invalid(values))
    axis.add_collection(shapes)
    if not empty.all():
        best = plane.shapes[int(np.nanargmax(values))]
        ring = PolyCollection([best], facecolors="none", edgecolors="#D55E00", linewidths=1.8)
        axis.add_collection(ring)
    axis.set_xlim(plane.low[0], plane.high[0])
    axis.set_ylim(plane.low[1], plane.high[1])
    x, y = plane.axes
    axis.set_xlabel(label(history.task.descriptors[x]))
    if y is None:
        axis.set_yticks([])
    else:
        axis.set_ylabel(label(history.task.descriptors[y]))
