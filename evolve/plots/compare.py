"""Groups of runs in one picture: medians with their intervals, and how sure a difference is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evolve.compare import FIGURES, Comparison
from evolve.plots.style import COLOURS, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Line = Literal["-", "--", ":", "-."]
_LINES: tuple[Line, ...] = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v")


def draw_comparison(comparison: Comparison) -> Figure:
    """Return a curve for every figure and group, and the probabilities of improvement."""
    from matplotlib.figure import Figure

    figures = list(comparison.bands)
    rows = (len(figures) + 2) // 2
    figure = Figure(figsize=(8.4, 2.7 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, 2, squeeze=False).ravel()
    for axis, name in zip(axes, figures, strict=False):
        for number, (middle, low, high) in enumerate(comparison.bands[name]):
            colour, line = _look(number)
            axis.step(comparison.axis, middle, line, where="post", color=colour)
            if not np.isnan(low).any():
                axis.fill_between(
                    comparison.axis, low, high, step="post", color=colour, alpha=0.2, linewidth=0
                )
        axis.set_ylabel(FIGURES[name])
        axis.set_xlabel("candidates evaluated")
    _draw_improvements(axes[len(figures)], comparison, figures)
    for axis in axes[len(figures) + 1 :]:
        axis.axis("off")
    figure.legend(handles=_key(comparison), loc="outside lower center", fontsize=7)
    figure.suptitle(
        f"{comparison.task}: medians over runs and 95 % bootstrap intervals", fontsize=10
    )
    return figure


def _draw_improvements(axis: Any, comparison: Comparison, figures: list[str]) -> None:
    others = len(comparison.groups) - 1
    for row in comparison.rows:
        if row.improvement is None:
            continue
        colour, _ = _look(row.group)
        # One place a figure, the groups side by side around it.
        shift = 0.0 if others == 1 else 0.5 * ((row.group - 1) / (others - 1) - 0.5)
        place = figures.index(row.figure) + shift
        found = row.improvement
        if not np.isnan(found.low):
            axis.plot([found.low, found.high], [place, place], color=colour, linewidth=2.5)
        marker = _MARKERS[row.group % len(_MARKERS)]
        axis.plot(found.value, place, marker, color=colour, markersize=5)
    axis.axvline(0.5, color="#999999", linewidth=0.8, linestyle=":")
    axis.set_xlim(-0.03, 1.03)
    axis.set_yticks(range(len(figures)), [FIGURES[name] for name in figures])
    axis.set_ylim(len(figures) - 0.5, -0.5)
    axis.set_xlabel("probability that a run is better than one of A")


def _key(comparison: Comparison) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D(
            [],
            [],
            color=_look(number)[0],
            linestyle=_look(number)[1],
            label=f"{group.letter}: {plain(group.name, 120)} ({len(group.seeds)} runs)",
        )
        for number, group in enumerate(comparison.groups)
    ]


def _look(number: int) -> tuple[str, Line]:
    """Return the colour and the line of a group: readable in grey and for the colour-blind."""
    return COLOURS[number % len(COLOURS)], _LINES[number % len(_LINES)]
