"""A run as one HTML file to send to somebody: no script, and nothing loaded from elsewhere.

Everything in it follows from the run folder, so the same run gives the same file. What programs,
errors and tasks say is shown as text, see :mod:`evolve.markup`.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from evolve.config import dump_config
from evolve.errors import StoreError
from evolve.history import FATES, History, answer_shares, read_history
from evolve.lineage import Step, changes
from evolve.markup import Html, element, joined, table
from evolve.plots import svg_pictures
from evolve.store import Store
from evolve.task import Objective

#: Lines of a diff around each change.
CONTEXT = 3

_PICTURES = {
    "archive": "Best mean reward of every cell; grey: empty, ringed: the best.",
    "curves": "What the archive reached; vertical lines are policy updates.",
    "rewards": "All valid programs, one objective against another.",
    "policy": "What became of the answers of each policy version, and figures of its updates.",
    "lineage": "From the starting program to the best.",
}

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #ccc; }
.wide, pre { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { padding: 0.2rem 0.8rem 0.2rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid #e4e4e4; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { font: 13px/1.4 ui-monospace, monospace; background: #f6f6f6; padding: 0.7rem; }
.added { background: #d6f0df; } .removed { background: #fbdcd6; } .place { color: #666; }
.note { color: #555; }
td pre { margin: 0; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: 0.9rem; }
"""
#: A browser runs and loads nothing, whatever the page holds.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(folder: Path, out: Path) -> None:
    """Write the report of a run, which may be running; a file of that name is replaced.

    Raises:
        StoreError: If the folder holds no run, or the file cannot be written.
    """
    page = report_page(folder)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        fresh = out.with_name(f".{out.name}.new")
        fresh.write_text(page, encoding="utf-8")
        fresh.replace(out)
    except OSError as error:
        raise StoreError(f"{out}: cannot be written: {error.strerror}") from None


def report_page(folder: Path) -> str:
    """Return the report of a run as the text of a page."""
    history = read_history(folder)
    with Store(folder) as store:
        events = store.events()
        tier = store.meta("tier")
    name = f"{history.task.name}: {folder.resolve().name}"
    head = joined(
        [
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            element("title", name),
            Html(f"<style>{_STYLE}</style>"),
        ]
    )
    pictures = svg_pictures(history)
    body = element(
        "body",
        element("h1", name),
        element("p", history.task.summary, class_="note"),
        _outcome(history, tier),
        _section("Rewards", _rewards(history)),
        _section("The archive", _figure(pictures, "archive"), _figure(pictures, "curves")),
        _section("The best program", *_best(history)),
        _section("Where it came from", *_ancestry(history), _figure(pictures, "lineage")),
        _section("What the rewards trade off", _figure(pictures, "rewards")),
        _section("The policy", *_policy(history), _figure(pictures, "policy")),
        _section("Events", _events(events)),
        _section("Again", *_again(history)),
    )
    return f'<!DOCTYPE html>\n<html lang="en">{element("head", head)}\n{body}</html>\n'


def _section(title: str, *parts: Html) -> Html:
    return element("section", element("h2", title), *parts)


def _figure(pictures: dict[str, str], name: str) -> Html:
    # The pictures are drawn here, from escaped text, and hold shapes and text alone.
    return element("figure", Html(pictures[name]), element("figcaption", _PICTURES[name]))


def _outcome(history: History, tier: str | None) -> Html:
    start, best = history.lineage[0], history.lineage[-1]
    figures = history.state.islands.metrics()
    cells = history.state.islands[0].cells.n_cells
    evaluations = int(history.curve("best_mean")[0][-1])
    updates = history.updates()
    lines = [
        f"Program {best.candidate.id} is best: mean reward {best.mean:.4f}; the starting program "
        f"has {start.mean:.4f}.{_widest(history)}",
    ]
    gains = [(after.mean - before.mean, after) for before, after in pairwise(history.lineage)]
    if gains:
        gain, step = max(gains, key=lambda pair: pair[0])
        lines.append(
            f"The edit that brought most, of {len(gains)}, made program {step.candidate.id}: "
            f"{gain:+.4f} ({step.candidate.operator}, policy v{step.version}, round {step.round})."
        )
    lines.append(
        f"{figures.n_cells} of {cells} cells are occupied ({figures.coverage:.1%}), QD-score "
        f"{figures.qd_score:.3f}, set utility {figures.set_utility:.4f}, {figures.n_programs} "
        "programs held."
    )
    lines.append(
        f"{evaluations} of {history.config.budget.evaluations} candidates evaluated in "
        f"{len(history.rounds)} rounds, isolation tier {tier}; policy "
        f"{history.config.policy.name}, seed {history.config.seed}."
    )
    if history.task.self_judged:
        lines.append("Self-judged: the figures are the programs' own word.")
    if updates:
        kept = sum(result == "kept" for _, result, _ in updates)
        lines.append(f"{len(updates)} policy updates, {kept} kept. {_last_change(history)}")
    return element("ul", *(element("li", line) for line in lines))


def _widest(history: History) -> str:
    """Return in which objective the best program gained most over the start."""
    start, best = history.lineage[0].verdict.rewards, history.lineage[-1].verdict.rewards
    if start is None or best is None or len(history.lineage) == 1:
        return ""
    gains = [now - before for before, now in zip(start, best, strict=True)]
    j = max(range(len(gains)), key=gains.__getitem__)
    name = history.task.objectives[j].name
    return f" It gained most in {name}, {start[j]:.4f} to {best[j]:.4f}."


def _last_change(history: History) -> str:
    """Return what the last version in use did otherwise than the one before."""
    shares = list(answer_shares(history.rounds).items())[-2:]
    if len(shares) < 2:
        return ""
    (old, before), (new, after) = shares
    moved = ", ".join(f"{fate} {before[fate]:.0%} to {after[fate]:.0%}" for fate in FATES)
    return f"From v{old} to v{new}, shares of the answers: {moved}."


def _rewards(history: History) -> Html:
    start, best = history.lineage[0], history.lineage[-1]
    programs = list(history.state.programs.values())
    rows, sources = [], []
    for j, objective in enumerate(history.task.objectives):
        top = max(programs, key=lambda p: (p.rewards[j], -p.id))
        known = history.task.best_known.get(objective.name)
        if known is not None:
            sources.append(element("li", f"{objective.name}: {known[1]}"))
        rows.append(
            (
                f"{objective.name} ({objective.unit})" if objective.unit else objective.name,
                *_measured(start, j, objective),
                *_measured(best, j, objective),
                f"{top.rewards[j]:.4f}",
                f"{top.id}",
                "" if known is None else f"{known[0]:.8g}",
            )
        )
    head = ("objective", "start", "reward", "best program", "reward", "best of any", "program")
    return joined(
        [
            element("p", "Rewards run from 0 to 1, 1 is best; raw values have the task's units."),
            table((*head, "best known"), rows, numbers=range(1, 8)),
            *([element("p", "Where the best known values come from:")] if sources else []),
            *([element("ul", *sources)] if sources else []),
        ]
    )


def _measured(step: Step, j: int, objective: Objective) -> tuple[str, str]:
    raw, rewards = step.verdict.raw.get(objective.name), step.verdict.rewards
    return "" if raw is None else f"{raw:.6g}", "" if rewards is None else f"{rewards[j]:.4f}"


def _best(history: History) -> Iterator[Html]:
    best = history.lineage[-1]
    source = best.candidate.source or ""
    place = ", ".join(
        f"{axis.name} {value:.6g} {axis.unit}".rstrip()
        for axis, value in zip(
            history.task.descriptors, best.verdict.descriptors or (), strict=False
        )
    )
    yield element("p", f"Program {best.candidate.id}; {place}.")
    yield element("pre", element("code", source))
    if len(history.lineage) > 1:
        parent = history.lineage[-2]
        yield element("h3", f"Its difference to the parent, program {parent.candidate.id}")
        yield _diff(parent.candidate.source or "", source)


def _diff(before: str, after: str) -> Html:
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT)
    kinds = {"+": "added", "-": "removed", "@": "place"}
    lines = []
    for line in list(found)[2:]:
        kind = kinds.get(line[:1])
        lines.append(element("span", line, class_=kind) if kind else joined([line]))
    return element("pre", Html("\n".join(lines)))


def _ancestry(history: History) -> Iterator[Html]:
    start = history.lineage[0]
    rows: list[tuple[str, ...]] = [
        (f"{start.candidate.id}", "", "", "starting program", f"{start.mean:.4f}", "", "")
    ]
    for before, after in pairwise(history.lineage):
        lines = changes(before.candidate.source or "", after.candidate.source or "")
        rows.append(
            (
                f"{after.candidate.id}",
                f"{after.round}",
                f"v{after.version}",
                after.candidate.operator,
                f"{after.mean:.4f}",
                f"{after.mean - before.mean:+.4f}",
                element("pre", "\n".join(lines)),
            )
        )
    head = ("program", "round", "policy", "operator", "mean reward", "gain", "changed lines")
    yield table(head, rows, numbers=(0, 1, 2, 4, 5))


def _policy(history: History) -> Iterator[Html]:
    shares = answer_shares(history.rounds)
    yield table(
        ("version", "answers", *FATES),
        (
            (f"v{version}", f"{share['answers']:.0f}", *(f"{share[fate]:.1%}" for fate in FATES))
            for version, share in shares.items()
        ),
        numbers=range(1, 2 + len(FATES)),
    )
    figures = ("rollouts", "mean_utility", "mean_abs_advantage", "kl", "entropy", "clip_fraction")
    named = [name.replace("_", " ") for name in figures]
    updates = history.updates()
    if not updates:
        yield element("p", "No policy updates.")
        return
    yield element("h3", "Updates")
    yield table(
        ("version", "round", "trained from", "outcome", *named, "reason"),
        (
            (
                f"v{record.version}",
                f"{record.round}",
                f"v{record.parent}",
                result,
                *(_number(record.stats.get(name)) for name in figures),
                str(record.stats.get("reason") or ""),
            )
            for _, result, record in updates
        ),
        numbers=(1, *range(4, 4 + len(figures))),
    )


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else ""


def _events(events: list[tuple[int, str, str]]) -> Html:
    if not events:
        return element("p", "None.")
    rows = ((f"{round_}", kind, said) for round_, kind, said in events)
    return table(("round", "kind", "event"), rows, numbers=(0,))


def _again(history: History) -> Iterator[Html]:
    command = f"evolve run {shlex.quote(history.config.task)} --config config.toml"
    yield element("p", "With the configuration below as config.toml:")
    yield element("pre", command)
    yield element("pre", dump_config(history.config), id="configuration")
