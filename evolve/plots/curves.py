"""A run over its evaluations: what the archive reached, what the policy's answers were worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evolve.history import FATES, History, answer_shares
from evolve.plots.style import COLOURS, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = {
    "kept": ("#0072B2", "-", "update in use"),
    "dropped": ("#999999", ":", "update dropped"),
    "rolled back": ("#D55E00", "--", "update rolled back"),
}


def draw_curves(history: History) -> Figure:
    """Return best, coverage, QD-scores and the best of each objective against evaluations."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 6.0), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    _curve(axes[0, 0], history, {"best_mean": "best mean reward", "set_utility": "set utility"})
    axes[0, 0].set_ylabel("reward, 1 is best")
    _curve(axes[0, 1], history, {"coverage": "coverage"})
    axes[0, 1].set_ylabel("share of cells occupied")
    _curve(axes[1, 0], history, {"qd_score": "QD-score", "vector_qd_score": "vector QD-score"})
    axes[1, 0].set_ylabel("sum over cells")
    evaluations, best = history.curve("best")
    styles = ("-", "--", ":")
    for j, objective in enumerate(history.task.objectives):
        style = styles[j // len(COLOURS) % len(styles)]
        axes[1, 1].step(
            evaluations, best[:, j], style, where="post", label=plain(objective.name, 30)
        )
    axes[1, 1].set_ylabel("best reward of each objective")
    axes[1, 1].legend(fontsize=7)
    for axis in axes[1]:
        axis.set_xlabel("candidates evaluated")
    for axis in axes.ravel():
        _mark_updates(axis, history)
    axes[0, 0].legend(fontsize=7)
    figure.suptitle(f"{history.task.name}, policy {plain(history.config.policy.name)}")
    return figure


def draw_policy(history: History) -> Figure:
    """Return what became of each policy version's answers, and the figures of its updates."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    shares = answer_shares(history.rounds)
    versions = [f"v{version}" for version in shares]
    bottom = np.zeros(len(shares))
    for fate, colour in zip(
        FATES, ("#009E73", "#56B4E9", "#E69F00", "#CC79A7", "#BBBBBB"), strict=True
    ):
        heights = np.array([share[fate] for share in shares.values()])
        left.bar(versions, heights, bottom=bottom, color=colour, label=fate)
        bottom += heights
    left.set_ylabel("share of answers asked for")
    left.set_xlabel("policy version")
    left.set_ylim(0, 1)
    if shares:
        left.legend(fontsize=7, loc="upper left", bbox_to_anchor=(0, 1.16), ncols=5)
    updates = history.updates()
    for name, text in (
        ("entropy", "entropy, nats a token"),
        ("mean_abs_advantage", "mean absolute advantage"),
        ("kl", "KL to the initial policy, nats"),
    ):
        points = [
            (at, record.stats[name])
            for at, _, record in updates
            if record.stats.get(name) is not None
        ]
        if points:
            right.plot(*zip(*points, strict=True), marker="o", markersize=3, label=text)
    right.set_xlabel("candidates evaluated")
    if updates:
        right.set_yscale("symlog", linthresh=1e-3)
        right.legend(fontsize=7)
    else:
        right.text(
            0.5, 0.5, "no policy updates", ha="center", va="center", transform=right.transAxes
        )
    return figure


def _curve(axis: Any, history: History, names: dict[str, str]) -> None:
    for name, text in names.items():
        evaluations, values = history.curve(name)
        axis.step(evaluations, values, where="post", label=text)
    if len(names) > 1:
        axis.legend(fontsize=7)


def _mark_updates(axis: Any, history: History) -> None:
    named = set()
    for at, outcome, _ in history.updates():
        colour, style, text = _MARKS[outcome]
        axis.axvline(
            at,
            color=colour,
            linestyle=style,
            linewidth=0.6,
            alpha=0.6,
            label=None if outcome in named else text,
        )
        named.add(outcome)
