"""Checking a task before a run: what its judge sees in the starting program, and in its mutants.

What would stop a run is raised as one line; what would only make it pointless is a warning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evolve.canonical import canonical_view
from evolve.edits import apply_answer, parse_completion
from evolve.errors import EvolveError, TaskError
from evolve.evaluate import Evaluation, evaluate, evaluate_many, open_pool
from evolve.hygiene import Hygiene, study, warnings_of
from evolve.mutate import propose
from evolve.program import ProgramError, fingerprint, split_blocks
from evolve.sandbox import Pool
from evolve.sandbox.text import clean
from evolve.seeding import rng_for
from evolve.task import Task, load_task


@dataclass(frozen=True)
class CheckReport:
    """What is known about a task that can be run.

    Attributes:
        task: The task.
        verdict: On the starting program.
        deterministic: Whether two runs of it gave the same answers.
        seconds: For one evaluation, sandbox included; the quicker of the two.
        cell: Bin of the starting program on each descriptor axis, from 0.
        mutants: Number of mutated programs evaluated.
        valid: Number of those that got rewards.
        hygiene: Of the rewards of the starting program and the valid mutants.
        warnings: Sentences on what may be amiss, most serious first.
    """

    task: Task
    verdict: Evaluation
    deterministic: bool
    seconds: float
    cell: tuple[int, ...]
    mutants: int
    valid: int
    hygiene: Hygiene
    warnings: tuple[str, ...]


def check_task(
    task: Task, *, mutants: int = 40, workers: int = 2, min_tier: str = "B", seed: int = 0
) -> CheckReport:
    """Evaluate a task's starting program twice, and some mutants of it once.

    Args:
        task: The task, from :func:`evolve.task.load_task`.
        mutants: Number of mutated programs whose rewards are compared.
        workers: Evaluating processes.
        min_tier: Weakest isolation accepted.
        seed: Chooses the mutants.

    Raises:
        TaskError: If the task cannot be run; the message names the file, the line where one is
            known, and what is wrong.
        SandboxError: If candidates cannot be run here.
    """
    try:
        split_blocks(task.initial)
    except ProgramError as error:
        raise TaskError(f"{task.start}: {error}") from None
    with open_pool(task, workers, min_tier) as pool:
        first, first_s = _timed(task, pool)
        if first.rewards is None or first.descriptors is None:
            raise TaskError(
                f"{task.start}: the starting program fails ({first.status}): {first.feedback}"
            )
        second, second_s = _timed(task, pool)
        programs = mutants_of(task.initial, mutants, rng_for(seed, "check"))
        verdicts = dict(evaluate_many(task, programs, pool))
    rewards = [verdicts[i].rewards for i in sorted(verdicts)]
    valid = [vector for vector in rewards if vector is not None]
    hygiene = study(np.array([first.rewards, *valid]), [o.name for o in task.objectives])
    report = CheckReport(
        task=task,
        verdict=first,
        deterministic=second.outputs_digest == first.outputs_digest,
        seconds=min(first_s, second_s),
        cell=tuple(
            min(d.bins - 1, max(0, int((value - d.low) / (d.high - d.low) * d.bins)))
            for d, value in zip(task.descriptors, first.descriptors, strict=True)
        ),
        mutants=len(programs),
        valid=len(valid),
        hygiene=hygiene,
        warnings=(),
    )
    return CheckReport(**{**vars(report), "warnings": tuple(_warnings(report))})


def check_each(
    names: Sequence[str], *, mutants: int = 40, min_tier: str = "B"
) -> Iterator[tuple[str, CheckReport | EvolveError]]:
    """Yield each task's name with its report, or with what makes it unusable; none stops the rest.

    Args:
        names: Tasks or their folders.
        mutants: As :func:`check_task`.
        min_tier: As :func:`check_task`.
    """
    for name in names:
        try:
            yield name, check_task(load_task(name), mutants=mutants, min_tier=min_tier)
        except EvolveError as error:
            yield name, error


def mutants_of(source: str, n: int, rng: np.random.Generator) -> list[str]:
    """Return up to ``n`` different programs, each a scripted edit of ``source`` or of another.

    There are fewer where the program leaves no room for so many.
    """
    programs, seen = [source], {fingerprint(source)}
    for _ in range(10 * n):
        if len(programs) > n:
            break
        # Half of them one edit away: farther ones show more, but fewer of them run.
        far = rng.random() < 0.5
        view = canonical_view(programs[rng.integers(len(programs)) if far else 0])
        for answer in parse_completion(propose(view, rng, 1), "line", 1):
            applied = apply_answer(view, answer)
            if applied.source is not None and applied.fingerprint not in seen:
                seen.add(str(applied.fingerprint))
                programs.append(applied.source)
    return programs[1:]


def report_lines(report: CheckReport) -> Iterator[str]:
    """Yield the report as a person reads it, warnings last."""
    task, verdict = report.task, report.verdict
    lines = sum(len(block.lines) for block in split_blocks(task.initial))
    yield (
        f"{task.name}: {task.k} rewards, {_count(len(task.cases), 'case')} in "
        f"{_count(len(task.stages), 'stage')}, {_count(lines, 'line')} to evolve"
    )
    for objective, reward in zip(task.objectives, verdict.rewards or (), strict=True):
        raw = f"{verdict.values[objective.name]:.8g} {objective.unit}".rstrip()
        known = task.best_known.get(objective.name)
        best = "" if known is None else f"  best known {known[0]:.10g} ({known[1]})"
        yield f"  reward      {objective.name:18s} {reward:.3f}  {raw}{best}"
    for descriptor, value, place in zip(
        task.descriptors, verdict.descriptors or (), report.cell, strict=True
    ):
        yield (
            f"  descriptor  {descriptor.name:18s} {value:.4g} {descriptor.unit}".rstrip()
            + f"  (bin {place + 1} of {descriptor.bins})"
        )
    shown = {o.name for o in task.objectives} | {d.name for d in task.descriptors}
    for name, value in verdict.values.items():
        if name not in shown:
            yield f"  value       {clean(name, 40):18s} {value:.8g}"
    yield (
        f"  time        {1000 * report.seconds:.0f} ms an evaluation; two runs "
        + ("agree" if report.deterministic else "differ")
    )
    if report.mutants:
        yield (
            f"  mutants     {report.valid} of {report.mutants} valid; the {task.k} rewards are "
            f"worth {report.hygiene.effective_rank:.2f} independent ones"
        )
    for warning in report.warnings:
        yield f"  warning: {warning}"
    yield "  ok" if not report.warnings else f"  ok, with {_count(len(report.warnings), 'warning')}"


def _timed(task: Task, pool: Pool) -> tuple[Evaluation, float]:
    started = time.perf_counter()
    verdict = evaluate(task, task.initial, pool)
    return verdict, time.perf_counter() - started


def _warnings(report: CheckReport) -> Iterator[str]:
    task, verdict = report.task, report.verdict
    if not report.deterministic:
        yield "two runs of the starting program gave different answers: luck will be selected"
    objectives = [objective.name for objective in task.objectives]
    for name in task.best_known:
        if name not in objectives:
            yield f"best_known names {name!r}, which is no objective ({', '.join(objectives)})"
    for name, reward in zip(objectives, verdict.rewards or (), strict=True):
        if reward >= 1.0:
            yield f"the starting program has the full reward {name}: nothing is left to gain there"
    for descriptor, value in zip(task.descriptors, verdict.descriptors or (), strict=True):
        if not descriptor.low <= value <= descriptor.high:
            yield (
                f"descriptor {descriptor.name} of the starting program is {value:.4g}, outside "
                f"{descriptor.low:g}..{descriptor.high:g}: it falls into the edge cell"
            )
    if verdict.wall_s > 0.5 * task.limits.wall_s * len(task.cases):
        yield (
            f"the starting program takes {verdict.wall_s:.2g} s, more than half of what it may: "
            "a busy machine will time it out"
        )
    if not report.mutants:
        yield (
            "the scripted mutator finds nothing to change in the evolve block: it needs names, "
            "numbers or operations in a function"
        )
    elif not report.valid:
        yield f"none of {report.mutants} mutants got a reward"
    else:
        yield from warnings_of(report.hygiene)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
