"""The rewards against each other: what one costs in terms of another, and the Pareto front."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evolve.history import History, nondominated
from evolve.plots.style import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: More objectives than this would be too small to read; those that vary most are shown.
MAX_OBJECTIVES = 6


def draw_rewards(history: History) -> Figure:
    """Return the scatter matrix of the reward vectors of all valid programs."""
    from matplotlib.figure import Figure

    programs = list(history.state.programs.values())
    rewards = np.array([program.rewards for program in programs])
    front = nondominated(rewards)
    shown = np.sort(np.argsort(-rewards.std(axis=0), kind="stable")[:MAX_OBJECTIVES])
    names = [plain(history.task.objectives[j].name, 20) for j in shown]
    k = len(shown)
    best = max(range(len(programs)), key=lambda i: (rewards[i].sum(), -programs[i].id))
    size = 1.5 * k + 0.8
    figure = Figure(figsize=(max(size, 3.2), max(size, 3.2)), layout="constrained")
    axes = figure.subplots(k, k, squeeze=False)
    for row in range(k):
        for column in range(k):
            axis = axes[row, column]
            x, y = rewards[:, shown[column]], rewards[:, shown[row]]
            if row == column:
                axis.hist(x, bins=20, range=(0, 1), color="#999999")
                axis.set_yticks([])
            else:
                axis.scatter(x, y, s=4, color="#BBBBBB", rasterized=True)
                axis.scatter(x[front], y[front], s=8, color="#0072B2", rasterized=True)
                axis.scatter(x[:1], y[:1], s=30, marker="x", color="#000000")
                axis.scatter(x[best], y[best], s=36, marker="*", color="#D55E00")
                axis.set_ylim(-0.03, 1.03)
            axis.set_xlim(-0.03, 1.03)
            axis.tick_params(labelsize=6)
            if row == k - 1:
                axis.set_xlabel(names[column], fontsize=8)
            else:
                axis.set_xticklabels([])
            if column == 0:
                axis.set_ylabel(names[row], fontsize=8)
            elif row != column:
                axis.set_yticklabels([])
    figure.suptitle(
        f"{history.task.name}: {len(programs)} valid programs, {int(front.sum())} on the Pareto\n"
        "front (blue); star: best mean reward, cross: starting program",
        fontsize=9,
    )
    return figure
