"""Runs somebody's evaluator on a program, both inside the sandbox: the ``run.py`` of a pair.

It stands alone: in the sandbox there is neither this package nor the one that evaluators import
their result class from, so a class of that name is given to them here.
"""

from __future__ import annotations

import math
import numbers
import os
import sys
import traceback
import types
from pathlib import Path
from typing import Any

# The place of a pair's files; a sandbox without one has no use for this runner.
FOLDER = os.environ["TMPDIR"] = "/scratch"
#: Characters of one text that an evaluator hands back, and of all of them.
ONE_TEXT, ALL_TEXTS = 2000, 20000
#: Metrics and artifacts of the stages so far; a later one wins.
METRICS: dict[str, float] = {}
TEXTS: dict[str, Any] = {}


class EvaluationResult:
    """Metrics by name, and artifacts: texts on how they came about."""

    def __init__(self, metrics: dict[str, Any], artifacts: dict[str, Any] | None = None) -> None:
        self.metrics = metrics
        self.artifacts = {} if artifacts is None else artifacts

    @classmethod
    def from_dict(cls, metrics: dict[str, Any]) -> EvaluationResult:
        """Return a result without artifacts."""
        return cls(metrics)

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics."""
        return self.metrics

    def has_artifacts(self) -> bool:
        """Return whether there are artifacts."""
        return bool(self.artifacts)

    def get_artifact_keys(self) -> list[str]:
        """Return the names of the artifacts."""
        return list(self.artifacts)

    def get_artifact_size(self, key: str) -> int:
        """Return the size of an artifact in bytes, 0 if there is none."""
        value = self.artifacts.get(key, "")
        return len(value) if isinstance(value, bytes) else len(str(value).encode())

    def get_total_artifact_size(self) -> int:
        """Return the size of all artifacts in bytes."""
        return sum(map(self.get_artifact_size, self.artifacts))


def load_program(source: str) -> str:
    """Write the program to a file of its own and return the file's path."""
    path = write("candidate/program.py", source)
    os.chdir(FOLDER)
    package = types.ModuleType("openevolve")
    package.__path__ = []
    module = types.ModuleType("openevolve.evaluation_result")
    module.__dict__["EvaluationResult"] = EvaluationResult
    package.__dict__.update(EvaluationResult=EvaluationResult, evaluation_result=module)
    sys.modules["openevolve"], sys.modules[module.__name__] = package, module
    return path


def run(path: str, given: dict[str, str]) -> dict[str, Any]:
    """Call a function of the evaluator with the path of the program.

    Args:
        path: From :func:`load_program`.
        given: ``evaluator``, its source, and ``call``, the name of the function.

    Returns:
        ``metrics``, finite numbers by name, and ``artifacts``, texts by name, both of all calls so
        far; or ``raised``, where and what the call raised; or ``error``, which it reported itself.
    """
    try:
        result = getattr(evaluator_of(given["evaluator"]), given["call"])(path)
        return plain(result)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a failed candidate is data
        return {"raised": f"{place(error)}{type(error).__name__}: {str(error)[:ONE_TEXT]}"}


def evaluator_of(source: str) -> types.ModuleType:
    """Return the evaluator as a module, the same one at each call."""
    if "evaluator" not in sys.modules:
        path = write("evaluator/evaluator.py", source)
        module = types.ModuleType("evaluator")
        module.__file__ = path
        sys.modules["evaluator"] = module
        sys.path.insert(0, str(Path(path).parent))
        try:
            exec(compile(source, path, "exec"), module.__dict__)
        except BaseException:
            del sys.modules["evaluator"]
            raise
    return sys.modules["evaluator"]


def plain(result: Any) -> dict[str, Any]:
    """Return what an evaluator handed back as numbers and texts."""
    found = result if isinstance(result, dict) else getattr(result, "metrics", None)
    if not isinstance(found, dict):
        kind = type(result).__name__
        return {"raised": f"the evaluator returned {kind}, a dict or a result object is needed"}
    error = found.get("error")
    if isinstance(error, str) and error:
        return {"error": error[:ONE_TEXT]}
    TEXTS.update(getattr(result, "artifacts", None) or {})
    for name, value in found.items():
        number = as_number(value)
        if number is None:
            METRICS.pop(str(name), None)
            TEXTS[str(name)] = value
        else:
            METRICS[str(name)] = number
    artifacts, left = {}, ALL_TEXTS
    for name, value in TEXTS.items():
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        text = text.encode("utf-8", "replace").decode()[: min(ONE_TEXT, left)]
        if text:
            artifacts[str(name)[:100]] = text
            left -= len(text)
    return {"metrics": dict(METRICS), "artifacts": artifacts}


def as_number(value: Any) -> float | None:
    """Return a finite number as a float, anything else as None."""
    if getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, numbers.Real):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    return None


def place(error: Exception) -> str:
    """Return "FILE line N: " for the line of the program, or else of the evaluator, that raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(FOLDER)]
    own = [f for f in frames if "/candidate/" in f.filename] or frames
    return f"{Path(own[-1].filename).name} line {own[-1].lineno}: " if own else ""


def write(name: str, text: str) -> str:
    """Write a file below :data:`FOLDER` and return its path."""
    path = Path(FOLDER, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)
