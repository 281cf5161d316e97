"""A pair as a task: what its folder holds, and how the evaluator's figures become rewards.

Every numeric metric is a reward, ``combined_score`` first, on a scale that grows with the run (see
:mod:`evolve.ranges`). Larger is better, as in OpenEvolve, but for the metrics named to be
minimised. Stages are stages here; what a stage must reach is worked out outside the sandbox.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evolve.ranges import running_objective
from evolve.task import BelowFloor, Case, Descriptor, Invalid, Limits, Stage, Task

#: The metric that stands for the whole, if an evaluator reports it.
COMBINED = "combined_score"
#: Rewards at most; further metrics are left out.
MOST_REWARDS = 16

_REMARK = 300


@dataclass(frozen=True)
class Metric:
    """A number that the evaluator reports.

    Attributes:
        name: As the evaluator has it.
        objective: The same as an identifier.
        start: Its value for the starting program.
        minimise: Whether smaller is better.
    """

    name: str
    objective: str
    start: float
    minimise: bool = False


@dataclass(frozen=True)
class Call:
    """A function of the evaluator, and what its metrics must reach for the next one."""

    function: str
    threshold: float | None = None


@dataclass(frozen=True)
class Pair:
    """What is known of a pair; stored as ``pair.json`` beside its two programs.

    Attributes:
        summary: For prompts.
        timeout_s: Wall-clock seconds for one call.
        calls: The functions to call, in order.
        metrics: The rewards.
        preload: Modules that the sandbox imports once.
        nodes: log2 of the starting program's syntax nodes; its cells are laid out around it.
        decisions: McCabe's number of the starting program.
    """

    summary: str
    timeout_s: float
    calls: tuple[Call, ...]
    metrics: tuple[Metric, ...]
    preload: tuple[str, ...]
    nodes: float
    decisions: float


def dump_pair(pair: Pair) -> str:
    """Return the text of ``pair.json``."""
    return json.dumps(asdict(pair), indent=1) + "\n"


def pair_task(file: str | Path) -> Task:
    """Return the task of a pair.

    Args:
        file: The ``task.py`` beside ``pair.json`` and ``evaluator.py``.
    """
    folder = Path(file).parent
    tree = json.loads((folder / "pair.json").read_text(encoding="utf-8"))
    tree["calls"] = tuple(Call(**call) for call in tree["calls"])
    tree["metrics"] = tuple(Metric(**metric) for metric in tree["metrics"])
    tree["preload"] = tuple(tree["preload"])
    return task_of(Pair(**tree), (folder / "evaluator.py").read_text(encoding="utf-8"))


def limits_of(timeout_s: float, calls: int) -> Limits:
    """Return what a program of a pair may use together with its evaluator."""
    return Limits(
        wall_s=timeout_s,
        # Wall-clock time is the limit; this one stops what several threads burn after all.
        cpu_s=2.0 * timeout_s * calls + 10.0,
        memory_mb=4096,
        scratch_mb=64,
        processes=64,
    )


def task_of(pair: Pair, evaluator: str) -> Task:
    """Return the task of a pair whose evaluator has the source ``evaluator``."""
    return Task(
        summary=pair.summary,
        objectives=[
            running_objective(m.objective, m.start, "min" if m.minimise else "max")
            for m in pair.metrics
        ],
        descriptors=[
            Descriptor("ast_nodes", pair.nodes - 1.5, pair.nodes + 1.5, bins=12, unit="log2 nodes"),
            Descriptor("cyclomatic", 1.0, max(12.0, 2.0 * pair.decisions), bins=10),
        ],
        cases=[
            Case(call.function, {"evaluator": evaluator, "call": call.function}, call)
            for call in pair.calls
        ],
        score=lambda output, case: _score(pair, output, case.hidden),
        remark=lambda output, _: remark_of(output),
        self_judged=True,
        stages=[Stage(call.function, (call.function,)) for call in pair.calls],
        limits=limits_of(pair.timeout_s, len(pair.calls)),
        preload=pair.preload,
    )


def metrics_of(output: Any) -> dict[str, float]:
    """Return the metrics that a call handed back.

    Raises:
        Invalid: If it raised, reported an error, or something else came out of the sandbox.
    """
    if not isinstance(output, dict):
        raise Invalid("the evaluator handed back no metrics")
    for key in ("raised", "error"):
        if isinstance(output.get(key), str):
            raise Invalid(output[key])
    metrics = output.get("metrics")
    if not isinstance(metrics, dict) or not all(
        isinstance(name, str) and type(value) is float for name, value in metrics.items()
    ):
        raise Invalid("the evaluator handed back no metrics")
    return metrics


def reached(metrics: Mapping[str, float]) -> float:
    """Return what counts against a threshold: the combined score, else the mean metric."""
    if COMBINED in metrics:
        return metrics[COMBINED]
    return math.fsum(metrics.values()) / len(metrics) if metrics else 0.0


def remark_of(output: Any) -> str:
    """Return the artifacts of a call on one line."""
    artifacts = output.get("artifacts") if isinstance(output, dict) else None
    if not isinstance(artifacts, dict):
        return ""
    return "; ".join(f"{name}: {str(text)[:_REMARK]}" for name, text in artifacts.items())


def _score(pair: Pair, output: Any, call: Call) -> dict[str, float]:
    metrics = metrics_of(output)
    if call.function != pair.calls[-1].function:
        score = reached(metrics)
        if call.threshold is not None and score < call.threshold:
            raise BelowFloor(
                f"it reaches {score:.6g}, at least {call.threshold:g} is needed to go on"
            )
        return {f"{call.function}_score": score}
    values = {}
    for metric in pair.metrics:
        if metric.name not in metrics:
            said = remark_of(output)
            raise Invalid(
                f"the evaluator reported no finite {metric.name}" + (f"; {said}" if said else "")
            )
        values[metric.objective] = metrics[metric.name]
    return values
