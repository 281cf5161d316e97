"""Runs and tasks in plain lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evolve.config import load_config
from evolve.errors import EvolveError, SandboxError, StoreError
from evolve.lineage import Step, ancestry, best_program, changes
from evolve.program import MAX_SOURCE_BYTES
from evolve.sandbox.text import clean
from evolve.starts import start_of
from evolve.store import Store
from evolve.task import Task, load_task, task_folders


def program_lines(store: Store, program: int) -> Iterator[str]:
    """Yield a program with its rewards, its descriptors and how it came to be."""
    task = load_task(load_config(store.folder / "config.toml").task)
    steps = ancestry(store, program)
    step = steps[-1]
    if step.verdict.rewards is None:
        yield f"program {program}, no reward: {step.verdict.status}: {step.verdict.feedback}"
        yield from _partial_lines(task, step)
    else:
        yield (
            f"program {program}, mean reward {step.mean:.4f}, {step.verdict.status}, "
            f"candidates ran at tier {store.meta('tier')}{_judged(store)}"
        )
        if step.verdict.feedback:
            yield f"  its evaluation left: {step.verdict.feedback}"
        yield from _reward_lines(task, step, steps[0])
    for axis, value in zip(task.descriptors, step.verdict.descriptors or (), strict=False):
        yield f"  {axis.name:24s} {value:12.6g} {axis.unit}"
    yield from _usage_lines(store)
    yield ""
    yield from clean(step.candidate.source or "", MAX_SOURCE_BYTES, keep_lines=True).splitlines()
    yield ""
    yield f"ancestry, {len(steps) - 1} edits:"
    for before, after in zip([None, *steps], steps, strict=False):
        yield from _step_lines(before, after)


def outcome_lines(store: Store) -> Iterator[str]:
    """Yield what a run reached: its best program against the starting one."""
    rounds = store.rounds()
    if not rounds:
        yield f"{store.folder}: stopped before the first round was closed"
        return
    last = rounds[-1]
    steps = ancestry(store, best_program(store))
    task = load_task(load_config(store.folder / "config.toml").task)
    yield (
        f"best program {steps[-1].candidate.id}: mean reward {steps[-1].mean:.4f}, "
        f"the starting program has {steps[0].mean:.4f}"
    )
    yield from _reward_lines(task, steps[-1], steps[0])
    versions = store.versions()
    kept = sum(version.active for version in versions)
    yield (
        f"{last['evaluations']} evaluated, {last['programs']} programs in the archive, "
        f"coverage {last['coverage']:.1%}, QD-score {last['qd_score']:.3f}, "
        f"policy updates: {len(versions)}, kept: {kept}"
    )
    yield from _usage_lines(store)
    yield (
        f"run folder: {store.folder}, candidates ran at tier {store.meta('tier')}{_judged(store)}"
    )


def run_lines(root: Path) -> Iterator[str]:
    """Yield a line for every run below a folder.

    Raises:
        StoreError: If there is none.
    """
    found = sorted(path.parent for path in root.glob("**/run.db"))
    if not found:
        raise StoreError(f"{root}: no runs below this folder")
    for folder in found:
        try:
            with Store(folder) as store:
                rounds, tier = store.rounds(), f"{store.meta('tier')}{_judged(store)}"
        except EvolveError as error:
            yield f"{folder}  unreadable: {error}"
            continue
        last = rounds[-1] if rounds else {"evaluations": 0, "best_mean": 0.0, "coverage": 0.0}
        yield (
            f"{folder}  rounds: {len(rounds)}  {last['evaluations']} evaluated  "
            f"best {last['best_mean']:.4f}  coverage {last['coverage']:.1%}  "
            f"tier {tier}"
        )


def task_lines() -> Iterator[str]:
    """Yield every shipped task: k, seconds an evaluation, and for each reward its seed value.

    Values and seconds are those of :func:`evolve.starts.start_of`, measured where not known yet.
    """
    for name in task_folders():
        task = load_task(name)
        try:
            start = start_of(task)
        except SandboxError as error:
            yield f"{name}  k={task.k}  not measured: {error}"
            continue
        yield f"{name}  k={task.k}  {start.seconds:.3g} s an evaluation"
        for objective in task.objectives:
            value, unit = start.values[objective.name], objective.unit
            known = task.best_known.get(objective.name)
            best = "not stated" if known is None else f"{known[0]:.10g}"
            yield (
                f"  {objective.name:20s} seed {value:<12.6g} best known {best:14s} "
                f"({objective.direction}{', ' + unit if unit else ''})"
            )


def _usage_lines(store: Store) -> Iterator[str]:
    """Yield what a model server was asked and what that cost; nothing for a run without one."""
    used = store.usage(2**62)
    if not used.responses:
        return
    unknown = f", {used.uncounted} answers without a count" if used.uncounted else ""
    yield (
        f"server: {used.responses} answers, {used.prompt_tokens} prompt and "
        f"{used.completion_tokens} completion tokens{unknown}, cost {used.cost:.6g}"
    )


def _judged(store: Store) -> str:
    return ", self-judged" if store.meta("self_judged") else ""


def _reward_lines(task: Task, step: Step, seed: Step) -> Iterator[str]:
    rewards = zip(
        task.objectives, step.verdict.rewards or (), seed.verdict.rewards or (), strict=False
    )
    for objective, now, before in rewards:
        raw = step.verdict.raw.get(objective.name)
        shown = "" if raw is None else f"{raw:.8g} {objective.unit}"
        known = task.best_known.get(objective.name)
        best = "" if known is None else f"  best known {known[0]:.10g}"
        yield f"  {objective.name:24s} reward {now:.4f} (start {before:.4f})  {shown}{best}"


def _partial_lines(task: Task, step: Step) -> Iterator[str]:
    """Yield what is known of a program that did not finish; the rest is unknown, not zero."""
    for objective in task.objectives:
        raw = step.verdict.raw.get(objective.name)
        known = "not judged" if raw is None else f"{raw:.8g} {objective.unit} so far".rstrip()
        yield f"  {objective.name:24s} {known}"


def _step_lines(before: Step | None, step: Step) -> Iterator[str]:
    if before is None:
        yield f"  {step.candidate.id:6d}  {step.mean:.4f}  starting program"
        return
    yield (
        f"  {step.candidate.id:6d}  {step.mean:.4f}  {step.mean - before.mean:+.4f}  "
        f"round {step.round}, policy v{step.version}, "
        f"{clean(step.candidate.operator, 80)}"
    )
    for line in changes(before.candidate.source or "", step.candidate.source or ""):
        yield f"          {clean(line, 200, keep_lines=True)}"
