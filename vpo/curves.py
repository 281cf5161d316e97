"""Pictures of a training run: what the policy earns, how much its answers differ, best@s."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpo.runs import load_config, read_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe and Ito's palette, https://jfly.uni-koeln.de/color/.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#999999"


def plot(out: Path) -> list[Path]:
    """Draw the curves of a run as PNG and SVG; return the files.

    Raises:
        ValueError: If the folder holds no run or it was never evaluated.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    config = load_config(out)
    steps, evaluations = read_rows(out / "steps.jsonl"), read_rows(out / "evaluations.jsonl")
    if not evaluations:
        raise ValueError(f"{out}: no evaluation to draw")
    settings: Any = {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "vpo",
    }
    with mpl.rc_context(rc=settings):
        figure = Figure(figsize=(11, 3.2), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(f"{config.method}, {config.answers} answers a completion", fontsize=10)
        worth, spread, best = figure.subplots(1, 3)
        _worth(worth, steps, evaluations)
        _spread(spread, steps, evaluations)
        _best(best, evaluations)
        files = [out / "curves.png", out / "curves.svg"]
        figure.savefig(files[0], dpi=140, metadata={"Software": None})
        figure.savefig(files[1], metadata={"Date": None})
    return files


def _worth(axes: Axes, steps: list[dict[str, Any]], evaluations: list[dict[str, Any]]) -> None:
    axes.set_title("what a completion is worth")
    rows = {"set utility R": ("set_utility", _BLUE), "mean reward": ("mean_reward", _ORANGE)}
    for label, (name, colour) in rows.items():
        _line(axes, steps, name, colour, alpha=0.35)
        _line(axes, evaluations, name, colour, marker="o", markersize=3, label=label)
    axes.set(xlabel="step", ylabel="reward (0 to 1)")
    axes.legend()


def _spread(axes: Axes, steps: list[dict[str, Any]], evaluations: list[dict[str, Any]]) -> None:
    axes.set_title("how much answers differ")
    _line(axes, evaluations, "pairwise_l1", _GREEN, marker="o", markersize=3)
    axes.set(xlabel="step", ylabel="mean L1 distance of rewards", ylim=(0, None))
    axes.yaxis.label.set_color(_GREEN)
    twin = axes.twinx()
    _line(twin, steps, "winner_entropy", _GREY)
    twin.set(ylabel="winner entropy", ylim=(0, 1))
    twin.yaxis.label.set_color(_GREY)
    twin.spines["right"].set_visible(True)


def _best(axes: Axes, evaluations: list[dict[str, Any]]) -> None:
    axes.set_title("best of s answers, held-out prompts")
    sizes = evaluations[0]["sizes"]
    ends = [(evaluations[0], _GREY)] + [(evaluations[-1], _BLUE)] * (len(evaluations) > 1)
    for row, colour in ends:
        for name, style, what in (("set_curve", "o-", "R"), ("best_by_answer", "o:", "mean")):
            values = [nan if value is None else value for value in row[name]]
            label = f"{what}, step {row['step']}"
            axes.plot(sizes[: len(values)], values, style, color=colour, ms=3, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set(xlabel="s, answers", ylabel="set utility R, best mean reward")
    axes.legend()


def _line(axes: Axes, rows: list[dict[str, Any]], name: str, colour: str, **style: Any) -> None:
    values = [(row["step"], row.get("measures", row).get(name)) for row in rows]
    known = [(step, value) for step, value in values if value is not None]
    if known:
        axes.plot(*zip(*known, strict=True), color=colour, **style)
