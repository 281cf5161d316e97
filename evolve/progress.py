"""What a run shows while it goes: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from evolve.campaign import RoundReport
from evolve.config import Config
from evolve.records import VersionRecord
from evolve.state import SearchState


@dataclass
class VersionTally:
    """What one policy version did over its rounds."""

    rounds: int = 0
    answers: int = 0
    valid: int = 0
    evaluated: int = 0
    taken: int = 0

    def add(self, report: RoundReport) -> None:
        """Count a round in."""
        self.rounds += 1
        self.answers += report.counted
        self.valid += report.statuses.get("ok", 0)
        self.evaluated += sum(report.statuses.values())
        self.taken += report.new + report.improved

    def line(self, version: int) -> str:
        """Return the shares in words."""
        return (
            f"policy v{version}: valid {_share(self.valid, self.answers)} of {self.answers} "
            f"answers, archive took {_share(self.taken, self.evaluated)} of {self.evaluated} "
            f"evaluated"
        )


@dataclass
class ConsoleObserver:
    """Shows a campaign on a console; use it as a context manager."""

    console: Console
    interrupted: bool = field(default=False, init=False)
    _config: Config = field(init=False)
    _tallies: dict[int, VersionTally] = field(
        default_factory=lambda: defaultdict(VersionTally), init=False
    )
    #: The latest rounds, which stay in sight.
    _recent: deque[RoundReport] = field(default_factory=lambda: deque(maxlen=8), init=False)
    _evaluated: int = field(default=0, init=False)
    _status: str = field(default="starting", init=False)
    _started: float = field(default_factory=time.monotonic, init=False)
    _evaluated_before: int = field(default=0, init=False)
    _live: Live | None = field(default=None, init=False)

    def __enter__(self) -> ConsoleObserver:
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def on_start(self, config: Config, state: SearchState, rounds: int) -> None:
        """Say where the run begins."""
        self._config = config
        self._started = time.monotonic()
        self._evaluated = self._evaluated_before = state.submitted
        word = f"goes on after round {rounds - 1}, best so far" if rounds else "begins; start"
        self._say(
            f"{config.task} with {config.policy.name}, seed {config.seed}: {word} "
            f"{sum(state.best().rewards) / len(state.best().rewards):.4f}"
        )

    def on_progress(self, round_: int, proposed: int, evaluated: int) -> None:
        """Show the candidates of the round."""
        self._evaluated = evaluated + (
            self._recent[-1].evaluations if self._recent else self._evaluated_before
        )
        self._status = f"round {round_}: {evaluated} of {proposed} candidates judged"
        self._refresh()

    def on_round(self, report: RoundReport) -> None:
        """Show a closed round."""
        self._recent.append(report)
        self._evaluated = report.evaluations
        self._tallies[report.version].add(report)
        self._status = f"round {report.round} done"
        if self._live is None:
            self._say(
                f"round {report.round:3d}  v{report.version}  {report.evaluations:6d} evaluated  "
                f"{self._rate():6.1f}/s  valid {report.valid_share:4.0%}  "
                f"taken {report.improvement_rate:4.0%}  best {report.best_mean:.4f}  "
                f"coverage {report.coverage:5.1%}  QD {report.qd_score:.3f}  "
                f"left {self._left()}"
            )
        self._refresh()

    def on_learning(self, round_: int) -> None:
        """Show that the policy is being trained."""
        self._status = f"learning from the rounds up to {round_}"
        self._refresh()

    def on_version(self, record: VersionRecord) -> None:
        """Say how an update ended."""
        stats = record.stats
        numbers = ", ".join(
            f"{key} {stats[key]:.3g}"
            for key in ("kl", "entropy", "seconds")
            if stats.get(key) is not None
        )
        outcome = (
            "in use" if record.active else f"dropped: {stats.get('reason', 'no reason given')}"
        )
        self._say(f"update -> policy v{record.version} ({outcome}; {numbers})")

    def on_event(self, kind: str, text: str) -> None:
        """Say what happened."""
        self.interrupted |= kind == "stopping"
        self._say(f"{kind}: {text}", "bold red" if kind == "UNSAFE" else None)

    def summary(self) -> list[str]:
        """Return a line for the first and for the last policy version of this session."""
        if not self._tallies:
            return []
        first, last = min(self._tallies), max(self._tallies)
        lines = [self._tallies[first].line(first)]
        if last != first:
            lines.append(self._tallies[last].line(last))
        return lines

    def _rate(self) -> float:
        done = max(0, self._evaluated - self._evaluated_before)
        return done / max(1e-9, time.monotonic() - self._started)

    def _left(self) -> str:
        missing = self._config.budget.evaluations - self._evaluated
        rate = self._rate()
        return _clock(missing / rate) if rate > 0 else "?"

    def _say(self, text: str, style: str | None = None) -> None:
        self.console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._table())

    def _table(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        total = self._config.budget.evaluations
        bar = Progress(TextColumn("{task.description}"), BarColumn(bar_width=40))
        text = (
            f"{self._evaluated}/{total} evaluated, {self._rate():.1f} a second, {self._left()} left"
        )
        bar.add_task(text, total=total, completed=self._evaluated)
        grid.add_row(bar)
        grid.add_row(self._status)
        if self._recent:
            rows = Table(box=None, pad_edge=False)
            for name in _cells(self._recent[-1]):
                rows.add_column(name, justify="right")
            for report in self._recent:
                rows.add_row(*_cells(report).values())
            grid.add_row(rows)
        return grid


def _cells(report: RoundReport) -> dict[str, str]:
    """Return column -> text of a round."""
    return {
        "round": f"{report.round}",
        "policy": f"v{report.version}",
        "evaluated": f"{report.evaluations}",
        "valid": f"{report.valid_share:.0%}",
        "taken": f"{report.improvement_rate:.0%}",
        "best": f"{report.best_mean:.4f}",
        "coverage": f"{report.coverage:.1%}",
        "QD-score": f"{report.qd_score:.3f}",
        "vector QD": f"{report.vector_qd_score:.3f}",
    }


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours > 48:
        return f"{hours / 24:,.0f} days"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
