"""Runs of one task against each other: what a change of the configuration is worth.

Runs whose configurations differ by the seed alone form a group. All are read at the same number of
evaluations, the most that every run has reached. Budgets and sandboxes may differ: they do not
change what a run does up to there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evolve.config import Config
from evolve.effects import Estimate, improvement, median_band, median_difference, rank_test
from evolve.errors import StoreError
from evolve.history import History, read_history
from evolve.sandbox.text import clean
from evolve.seeding import rng_for
from evolve.task_files import digest_of

Floats = npt.NDArray[np.float64]

#: Fields of :class:`evolve.islands.ArchiveMetrics` that are compared, with what they are called.
FIGURES = {
    "best_mean": "best mean reward",
    "set_utility": "set utility",
    "coverage": "coverage",
    "qd_score": "QD-score",
    "vector_qd_score": "vector QD-score",
}
#: Fields of the configuration that change what a figure means, and the figures.
_MEANINGS = {
    ("search.cells", "search.cvt_cells"): ("coverage", "qd_score", "vector_qd_score"),
    ("search.alpha", "search.bank"): ("set_utility", "vector_qd_score"),
}
#: Sections and fields that tell no groups apart.
_SAME = ("task", "seed", "budget.", "sandbox.")
#: Points of the budget axis, 0 not counted.
POINTS = 100


@dataclass(frozen=True)
class Group:
    """Runs that differ by their seed alone.

    Attributes:
        letter: A for the first, and so on.
        name: What tells it from the other groups: fields with their values.
        seeds: (n,) seeds of the runs.
        curves: Figure -> (n, t) values along the budget axis.
    """

    letter: str
    name: str
    seeds: tuple[int, ...]
    curves: Mapping[str, Floats]

    def final(self, figure: str) -> Floats:
        """Return the values (n,) at the end of the common budget."""
        return np.asarray(self.curves[figure][:, -1])


@dataclass(frozen=True)
class Row:
    """A group in one figure at the end of the common budget, against the first group.

    Attributes:
        figure: A key of :data:`FIGURES`.
        group: Index of the group.
        median: Over the runs.
        difference: Of the medians, this group's less the first one's; None for the first.
        improvement: Probability that a run is better than one of the first group.
        p: p-value of the rank test.
    """

    figure: str
    group: int
    median: Estimate
    difference: Estimate | None = None
    improvement: Estimate | None = None
    p: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Groups of runs on one budget axis.

    Attributes:
        task: Name of the problem.
        axis: (t,) candidates evaluated, from 0 to the common budget.
        groups: At least two; the group of the run that was named first is the first.
        bands: Figure -> for each group the median and its interval (t,) along the axis.
        rows: The table.
        left_out: Figures that mean different things in these runs, with the fields that do it.
    """

    task: str
    axis: Floats
    groups: Sequence[Group]
    bands: Mapping[str, Sequence[tuple[Floats, Floats, Floats]]]
    rows: Sequence[Row]
    left_out: Mapping[str, str]


def compare_runs(folders: Sequence[Path]) -> Comparison:
    """Return how the groups of some runs compare.

    Raises:
        StoreError: If a folder holds no run or an empty one, if two runs have different tasks or
            are the same experiment, or if all belong to one group.
        EvolveError: If a configuration or a task cannot be read.
    """
    histories = [read_history(folder) for folder in folders]
    _check(histories)
    fields = [_fields(history.config) for history in histories]
    differing = [name for name in fields[0] if len({field[name] for field in fields}) > 1]
    by_name: dict[str, list[History]] = {}
    for history, own in zip(histories, fields, strict=True):
        name = ", ".join(f"{field}={own[field]}" for field in differing)
        by_name.setdefault(name, []).append(history)
    if len(by_name) < 2:
        raise StoreError(
            f"{', '.join(map(str, folders))}: one configuration but for the seed, so there is "
            "nothing to compare; runs of at least two are needed"
        )
    left_out = {
        figure: next(field for field in names if field in differing)
        for names, figures in _MEANINGS.items()
        if set(names) & set(differing)
        for figure in figures
    }
    figures = [figure for figure in FIGURES if figure not in left_out]
    budget = min(float(history.curve("best_mean")[0][-1]) for history in histories)
    axis = np.unique(np.round(np.linspace(0.0, budget, POINTS + 1)))
    groups = [
        _group(_letter(number), name, members, figures, axis)
        for number, (name, members) in enumerate(by_name.items())
    ]
    bands = {
        figure: [
            median_band(group.curves[figure], rng_for(0, "compare", figure, number))
            for number, group in enumerate(groups)
        ]
        for figure in figures
    }
    rows = [
        _row(figure, number, groups, bands[figure][number])
        for figure in figures
        for number in range(len(groups))
    ]
    return Comparison(histories[0].task.name, axis, groups, bands, rows, left_out)


def table_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the table of a comparison in plain lines."""
    groups = comparison.groups
    yield (
        f"{comparison.task}: {sum(len(group.seeds) for group in groups)} runs in {len(groups)} "
        f"groups after {comparison.axis[-1]:.0f} evaluations"
    )
    for group in groups:
        seeds = ", ".join(map(str, sorted(group.seeds)))
        yield f"  {group.letter}  {clean(group.name, 200)}  (seeds {seeds})"
    for row in comparison.rows:
        if not row.group:
            yield ""
            yield (
                f"{FIGURES[row.figure]:18s} {'median [95 %]':28s}  {'less A [95 %]':30s}  "
                f"{'P(better than A)':20s}  rank test"
            )
        line = f"  {groups[row.group].letter:16s} {_text(row.median):28s}"
        if row.difference is not None and row.improvement is not None:
            line += (
                f"  {_text(row.difference, '+'):30s}  {_text(row.improvement, '', 2):20s}"
                f"  p = {row.p:.3f}"
            )
        yield line.rstrip()
    yield ""
    for figure, field in comparison.left_out.items():
        yield f"not compared: {FIGURES[figure]}, which depends on {field}"
    fewest = min(len(group.seeds) for group in groups)
    if fewest < 5:
        yield f"the smallest group has {fewest} run{'s' * (fewest > 1)}: too few to be sure of much"


def _check(histories: Sequence[History]) -> None:
    first = histories[0]
    files = digest_of(first.task.folder, first.task.files)
    seen: dict[str, Path] = {}
    for history in histories:
        if not history.rounds:
            raise StoreError(f"{history.folder}: no round is closed yet, nothing to compare")
        folder = history.task.folder
        if folder != first.task.folder and digest_of(folder, history.task.files) != files:
            raise StoreError(
                f"{first.folder} runs {first.task.name}, {history.folder} runs "
                f"{history.task.name}: only runs of one task can be compared"
            )
        own = str((history.config.seed, _fields(history.config)))
        if own in seen:
            raise StoreError(
                f"{seen[own]} and {history.folder}: the same configuration and seed; intervals are "
                "over seeds, so each must be there once"
            )
        seen[own] = history.folder


def _fields(config: Config) -> dict[str, Any]:
    """Return the fields that tell groups apart, with dots in their names."""
    flat: dict[str, Any] = {}
    for name, value in config.model_dump(mode="json").items():
        if isinstance(value, dict):
            flat.update({f"{name}.{field}": inner for field, inner in value.items()})
        else:
            flat[name] = value
    return {name: value for name, value in flat.items() if not name.startswith(_SAME)}


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else f"A{number}"


def _group(
    letter: str, name: str, members: Sequence[History], figures: Sequence[str], axis: Floats
) -> Group:
    curves = {
        figure: np.stack([_along(axis, *history.curve(figure)) for history in members])
        for figure in figures
    }
    return Group(letter, name, tuple(history.config.seed for history in members), curves)


def _along(axis: Floats, evaluations: Floats, values: Floats) -> Floats:
    """Return a curve at the points of the axis: what was known after so many evaluations."""
    return np.asarray(values[np.searchsorted(evaluations, axis, side="right") - 1])


def _row(
    figure: str, number: int, groups: Sequence[Group], band: tuple[Floats, Floats, Floats]
) -> Row:
    median = Estimate(*(float(line[-1]) for line in band))
    if not number:
        return Row(figure, number, median)
    own, first = groups[number].final(figure), groups[0].final(figure)
    rng = rng_for(0, "compare against", figure, number)
    return Row(
        figure,
        number,
        median,
        median_difference(own, first, rng),
        improvement(own, first, rng),
        rank_test(own, first),
    )


def _text(estimate: Estimate, sign: str = "", digits: int = 4) -> str:
    text = f"{estimate.value:{sign}.{digits}f}"
    if np.isnan(estimate.low):
        return text
    return f"{text} [{estimate.low:{sign}.{digits}f}, {estimate.high:{sign}.{digits}f}]"
