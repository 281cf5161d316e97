"""What a task's starting program reaches on this machine: measured once, kept for its exact text.

A figure that is written down somewhere grows old; one that is measured at each look takes a minute
for all tasks. So it is measured, and kept in the user's cache under a digest of the task's files
and of the interpreter: when a task changes, its figures are measured again.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from evolve.errors import TaskError
from evolve.evaluate import evaluate, open_pool
from evolve.task import Task
from evolve.task_files import digest_of


@dataclass(frozen=True)
class Start:
    """What the starting program reaches.

    Attributes:
        values: Raw value of each objective.
        seconds: Of one evaluation with a warm worker, sandbox included; the quicker of two.
    """

    values: Mapping[str, float]
    seconds: float


def start_of(task: Task, cache: Path | None = None, min_tier: str = "B") -> Start:
    """Return what the starting program of a task reaches.

    Args:
        task: From :func:`evolve.task.load_task`.
        cache: Folder of the kept figures, by default one of the user's.
        min_tier: Weakest isolation accepted.

    Raises:
        TaskError: If the starting program fails.
        SandboxError: If it cannot be run here.
    """
    path = (cache or _cache()) / f"{task.name}-{_digest(task)}.json"
    if (kept := _kept(path, task)) is not None:
        return kept
    start = _measured(task, min_tier)
    # A cache that cannot be written costs time and nothing else.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(asdict(start)), encoding="utf-8")
        fresh.replace(path)
    return start


def _measured(task: Task, min_tier: str) -> Start:
    with open_pool(task, 1, min_tier) as pool:
        seconds = []
        for _ in range(2):
            started = time.perf_counter()
            verdict = evaluate(task, task.initial, pool)
            seconds.append(time.perf_counter() - started)
            if verdict.rewards is None:
                raise TaskError(
                    f"{task.start}: the starting program fails ({verdict.status}): "
                    f"{verdict.feedback}"
                )
    values = {objective.name: verdict.values[objective.name] for objective in task.objectives}
    return Start(values, min(seconds))


def _kept(path: Path, task: Task) -> Start | None:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        values = {o.name: float(tree["values"][o.name]) for o in task.objectives}
        return Start(values, float(tree["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        # Not there, or cut off: measured again.
        return None


def _digest(task: Task) -> str:
    text = f"{sys.version} {platform.machine()} {digest_of(task.folder, task.files)}"
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "evolve-vpo" / "starts"
