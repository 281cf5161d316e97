"""The archive as a map: every cell in the colour of the best mean reward found there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evolve.archive import Archive
from evolve.chart import Chart, charts
from evolve.history import History
from evolve.plots.style import EMPTY, MAP, label
from evolve.state import replay
from evolve.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Frames of the animation before it rests at the end, and frames a second.
FRAMES, RATE = 40, 5


def draw_archive(history: History) -> Figure:
    """Return a map for every island (rows) and pair of descriptors (columns), the best ringed."""
    tables = [_best_of_cells(archive) for archive in history.state.islands]
    figure, planes = _figure(history, tables)
    for plane in planes:
        plane.show(*tables[plane.island])
    coverage = history.state.islands.metrics().coverage
    figure.suptitle(f"{history.task.name}: {coverage:.0%} of the cells are occupied")
    return figure


def animate_archive(history: History, path: Path) -> None:
    """Write a GIF of the archive filling, some :data:`FRAMES` frames over the run.

    Raises:
        OSError: If the file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.animation import PillowWriter

    config = history.config
    every = max(1, history.trace[-1][0] // FRAMES)
    frames = []
    with Store(history.folder) as store:
        for judged, closed, state in replay(store, history.task, config.search, config.seed):
            last = closed and judged == history.trace[-1][0]
            if last or judged % every == 0:
                coverage = state.islands.metrics().coverage
                frames.append((judged, coverage, [_best_of_cells(a) for a in state.islands]))
    figure, planes = _figure(history, [table for _, _, tables in frames for table in tables])
    # The maps stay where they are: the layout is found once, with a title in its place.
    figure.suptitle(history.task.name)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    writer = PillowWriter(fps=RATE)
    # Frames have one size, so none may be cut to what it shows.
    with mpl.rc_context({"savefig.bbox": None}), writer.saving(figure, str(path), dpi=100):
        for judged, coverage, tables in [*frames, *frames[-1:] * (FRAMES // 4)]:
            for plane in planes:
                plane.show(*tables[plane.island])
            figure.suptitle(
                f"{history.task.name}: {judged} evaluated, {coverage:.0%} of the cells occupied"
            )
            writer.grab_frame()


@dataclass(frozen=True)
class _Plane:
    """One map of a figure, and what of it changes."""

    chart: Chart
    island: int
    shapes: Any
    ring: Any

    def show(self, cells: Any, scores: Any) -> None:
        """Colour the shapes by the scores (n,) of the occupied cells (n,), and ring the best."""
        values = self.chart.values(cells, scores)
        self.shapes.set_array(np.ma.masked_invalid(values))
        best = [] if np.isnan(values).all() else [self.chart.shapes[int(np.nanargmax(values))]]
        self.ring.set_verts(best)


def _figure(history: History, tables: list[tuple[Any, Any]]) -> tuple[Figure, list[_Plane]]:
    """Return empty maps whose colours span the scores of all ``tables``."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    rows, columns = len(history.state.islands), charts(history.state.islands[0].cells)
    scores = np.concatenate([table[1] for table in tables])
    low, high = float(scores.min()), float(scores.max())
    scale = Normalize(low, high if high > low else low + 1e-9)
    figure = Figure(figsize=(4.6 * len(columns) + 0.6, 3.6 * rows), layout="constrained")
    axes = figure.subplots(rows, len(columns), squeeze=False)
    planes = []
    for row in range(rows):
        for column, chart in enumerate(columns):
            planes.append(_draw_plane(axes[row, column], history, chart, row, scale))
            if rows > 1:
                axes[row, column].set_title(f"island {row}")
    figure.colorbar(
        ScalarMappable(scale, MAP), ax=axes.ravel().tolist(), label="best mean reward in the cell"
    )
    return figure, planes


def _best_of_cells(archive: Archive) -> tuple[Any, Any]:
    """Return the occupied cells (n,) and the best mean reward in each (n,)."""
    cells = np.asarray(archive.occupied(), dtype=np.int64)
    means = [archive.champion_rewards(int(cell)).mean(axis=1).max() for cell in cells]
    return cells, np.asarray(means)


def _draw_plane(axis: Any, history: History, chart: Chart, island: int, scale: Any) -> _Plane:
    from matplotlib import colormaps
    from matplotlib.collections import PolyCollection

    colours = colormaps[MAP].with_extremes(bad=EMPTY)
    shapes = PolyCollection(
        chart.shapes, cmap=colours, norm=scale, edgecolors="white", linewidths=0.4
    )
    axis.add_collection(shapes)
    ring = PolyCollection([], facecolors="none", edgecolors="#D55E00", linewidths=1.8)
    axis.add_collection(ring)
    axis.set_xlim(chart.low[0], chart.high[0])
    axis.set_ylim(chart.low[1], chart.high[1])
    x, y = chart.axes
    axis.set_xlabel(label(history.task.descriptors[x]))
    if y is None:
        axis.set_yticks([])
    else:
        axis.set_ylabel(label(history.task.descriptors[y]))
    return _Plane(chart, island, shapes, ring)
