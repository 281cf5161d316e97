"""From two files of a user to the folder of a task: read, tried once, written."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from evolve.config import Config, load_config
from evolve.descriptors import ast_nodes, cyclomatic
from evolve.errors import ConfigError, TaskError
from evolve.launch import new_folder
from evolve.openevolve.pair import (
    COMBINED,
    MOST_REWARDS,
    Call,
    Metric,
    Pair,
    dump_pair,
    limits_of,
    metrics_of,
    reached,
)
from evolve.openevolve.settings import PairSettings, read_settings
from evolve.program import ProgramError, parse_source, split_blocks
from evolve.sandbox import Pool, Status
from evolve.task import Invalid

_TASK = '''\
"""A pair of an initial program and an evaluator; evolve run --openevolve wrote this folder."""

from evolve.openevolve import pair_task

TASK = pair_task(__file__)
'''
_STAGES = ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3")
# Loaded once for all candidates instead of once for each, where a pair imports them.
_WORTH_PRELOADING = ("numpy", "scipy", "networkx", "pandas", "sympy", "sklearn")
_RUNNER = Path(__file__).with_name("runner.py")


def prepare(
    initial: Path,
    evaluator: Path,
    config: Path | None,
    layers: Sequence[str],
    seed: int | None,
    out: Path | None,
    minimise: Sequence[str] = (),
) -> tuple[Config, Path, list[str]]:
    """Write the task of a pair into a new run folder.

    Args:
        initial: The starting program.
        evaluator: The file with ``evaluate``, or ``evaluate_stage1`` and on.
        config: A ``config.yaml`` of OpenEvolve, None for its defaults.
        layers: Settings of the run like ``search.prompts=8``; they win over ``config``.
        seed: Of the run; it wins over ``config``.
        out: The run folder, None for a new one under ``runs``.
        minimise: Metrics of which less is better.

    Returns:
        The run's configuration, its folder, and sentences on how the pair is taken.

    Raises:
        EvolveError: If a file is unusable or the starting program cannot be evaluated; nothing is
            left behind then.
    """
    settings = read_settings(config)
    known = [
        f"{name}={value}"
        for name, value in (
            ("budget.evaluations", settings.evaluations),
            ("sandbox.workers", settings.workers),
        )
        if value is not None
    ]
    name = initial.resolve().parent.name or "pair"
    chosen = load_config(
        None, [*known, *layers], task=name, seed=settings.seed if seed is None else seed
    )
    source, judge = marked(_read(initial), initial), _read(evaluator)
    pair, notes = try_out(source, initial, judge, evaluator, settings, minimise, chosen)
    folder = out or new_folder(chosen, Path("runs"))
    task = (folder / "task").resolve()
    _write(
        task,
        {
            "initial.py": source,
            "evaluator.py": judge,
            "run.py": _read(_RUNNER),
            "task.py": _TASK,
            "pair.json": dump_pair(pair),
        },
    )
    if settings.unused:
        notes.append(f"of {config} these fields mean nothing here: {', '.join(settings.unused)}")
    return chosen.model_copy(update={"task": str(task)}), folder, notes


def discard(folder: Path) -> None:
    """Remove the task from a run folder whose run never began."""
    if (folder / "run.db").exists():
        return
    shutil.rmtree(folder / "task", ignore_errors=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def marked(source: str, path: Path) -> str:
    """Return a starting program with evolve blocks: its own, else one around all of it.

    Raises:
        TaskError: If it does not parse, or a marker lacks its partner.
    """
    try:
        parse_source(source)
        if "EVOLVE-BLOCK-" not in source:
            end = "" if source.endswith("\n") else "\n"
            source = f"# EVOLVE-BLOCK-START\n{source}{end}# EVOLVE-BLOCK-END\n"
        split_blocks(source)
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise TaskError(f"{path}{line}: {error.msg}") from None
    except ProgramError as error:
        raise TaskError(f"{path}: {error}") from None
    return source


def calls_of(judge: str, path: Path, settings: PairSettings) -> tuple[Call, ...]:
    """Return the functions of an evaluator to be called, in order, with their thresholds.

    As in OpenEvolve a further stage is called only if a threshold is given for the one before.

    Raises:
        TaskError: If it does not parse, or has none of the functions.
    """
    try:
        tree = parse_source(judge)
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise TaskError(f"{path}{line}: {error.msg}") from None
    names = set(_bound(tree))
    if settings.cascade and _STAGES[0] in names:
        stages = [_STAGES[0]]
        for stage in _STAGES[1:]:
            if stage not in names or len(stages) > len(settings.thresholds):
                break
            stages.append(stage)
        thresholds: list[float | None] = [*settings.thresholds, None, None, None]
        last = len(stages) - 1
        return tuple(
            Call(stage, thresholds[i] if i < last else None) for i, stage in enumerate(stages)
        )
    if "evaluate" not in names:
        raise TaskError(
            f"{path}: defines no evaluate(program_path), nor evaluate_stage1 to begin a cascade"
        )
    return (Call("evaluate"),)


def try_out(
    source: str,
    initial: Path,
    judge: str,
    evaluator: Path,
    settings: PairSettings,
    minimise: Sequence[str],
    config: Config,
) -> tuple[Pair, list[str]]:
    """Evaluate the starting program once and return what the pair is, with notes on it.

    Raises:
        TaskError: If it fails, or reports no metric.
        SandboxError: If the sandbox cannot be had.
    """
    calls = calls_of(judge, evaluator, settings)
    preload = tuple(_preload(source, judge))
    limits = limits_of(settings.timeout_s, len(calls))
    notes: list[str] = []
    kept: list[Call] = []
    metrics: dict[str, float] = {}
    with (
        Pool(_read(_RUNNER), preload, limits, 1, config.sandbox.min_tier) as pool,
        pool.session(source) as session,
    ):
        for call in calls:
            reply = session.call({"evaluator": judge, "call": call.function})
            try:
                if reply.status != Status.OK:
                    raise Invalid(f"{reply.status}: {reply.detail}")
                metrics = metrics_of(reply.output)
            except Invalid as fault:
                if not kept:
                    raise TaskError(
                        f"{initial}: the starting program fails in {call.function} of "
                        f"{evaluator.name}: {fault}"
                    ) from None
                notes.append(
                    f"{call.function} fails for the starting program, so stages end "
                    f"before it: {fault}"
                )
                break
            score = reached(metrics)
            if call.threshold is not None and score < call.threshold:
                # A little below: an evaluator that measures time does not say the same twice.
                lowered = score - 0.1 * abs(score)
                notes.append(
                    f"the starting program reaches {score:.6g} in {call.function}: its threshold "
                    f"is lowered from {call.threshold:g} to {lowered:.6g}"
                )
                call = replace(call, threshold=lowered)
            kept.append(call)
    kept[-1] = replace(kept[-1], threshold=None)
    found = _metrics(metrics, minimise, evaluator, notes)
    better = ", ".join(f"{m.name} ({'small' if m.minimise else 'large'})" for m in found)
    notes.insert(0, f"rewards, from the evaluator: {better}")
    tree = parse_source(source)
    pair = Pair(
        summary=settings.summary or f"Improve the program. Its evaluator reports {better}.",
        timeout_s=settings.timeout_s,
        calls=tuple(kept),
        metrics=found,
        preload=preload,
        nodes=ast_nodes(source, tree),
        decisions=cyclomatic(source, tree),
    )
    return pair, notes


def _metrics(
    values: dict[str, float], minimise: Sequence[str], evaluator: Path, notes: list[str]
) -> tuple[Metric, ...]:
    if not values:
        raise TaskError(f"{evaluator}: reports no finite number for the starting program")
    if unknown := [name for name in minimise if name not in values]:
        raise ConfigError(
            f"--minimise {unknown[0]}: the evaluator reports no such metric; "
            f"reported: {', '.join(values)}"
        )
    names = sorted(values, key=lambda name: name != COMBINED)
    if len(names) > MOST_REWARDS:
        notes.append(f"only the first {MOST_REWARDS} of {len(names)} metrics are rewards")
    taken: list[Metric] = []
    for name in names[:MOST_REWARDS]:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)
        plain = plain if plain and not plain[0].isdigit() else f"_{plain}"
        while plain in {metric.objective for metric in taken}:
            plain += "_"
        taken.append(Metric(name, plain, values[name], name in minimise))
    return tuple(taken)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module binds at its top level, in the usual ways."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _preload(*sources: str) -> Iterator[str]:
    """Yield the modules worth loading once that the sources import and that are installed."""
    seen: set[str] = set()
    for node in (node for source in sources for node in ast.walk(parse_source(source))):
        for name in _imported(node):
            package = name.split(".")[0]
            if package not in _WORTH_PRELOADING or name in seen:
                continue
            seen.add(name)
            if importlib.util.find_spec(package) is not None and _found(name):
                yield name


def _imported(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def _found(name: str) -> bool:
    """Return whether a dotted name is a module; scipy's is not loaded to find out."""
    place = importlib.util.find_spec(name.split(".")[0])
    roots = [] if place is None else list(place.submodule_search_locations or [])
    parts = name.split(".")[1:]
    return not parts or any(
        Path(root, *parts).is_dir() or Path(root, *parts).with_suffix(".py").is_file()
        for root in roots
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise TaskError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: cannot be read: {error}") from None


def _write(folder: Path, texts: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise TaskError(f"{folder}: is there already; a new run needs a new folder") from None
    except OSError as error:
        raise TaskError(f"{folder}: cannot be written: {error.strerror}") from None
