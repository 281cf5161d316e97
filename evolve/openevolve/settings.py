"""The part of an OpenEvolve configuration that means something here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from evolve.errors import ConfigError


@dataclass(frozen=True)
class PairSettings:
    """What a ``config.yaml`` says of a pair; the defaults are OpenEvolve's.

    Attributes:
        timeout_s: Seconds for one call of the evaluator (``evaluator.timeout``).
        cascade: Whether to call ``evaluate_stage1`` and on where there is one
            (``evaluator.cascade_evaluation``).
        thresholds: What a stage must reach for the next (``evaluator.cascade_thresholds``).
        workers: Programs evaluated at once (``evaluator.parallel_evaluations``), None if not said.
        evaluations: ``max_iterations``, None if not said.
        seed: ``random_seed``, None if not said.
        summary: ``prompt.system_message``, empty if not said.
        unused: Names of the other fields in the file, which mean nothing here.
    """

    timeout_s: float = 300.0
    cascade: bool = True
    thresholds: tuple[float, ...] = (0.5, 0.75, 0.9)
    workers: int | None = None
    evaluations: int | None = None
    seed: int | None = None
    summary: str = ""
    unused: tuple[str, ...] = field(default=())


def read_settings(path: Path | None) -> PairSettings:
    """Return the settings of a file, or the defaults.

    Raises:
        ConfigError: If the file cannot be read or a field that is used holds something else than
            what is allowed.
    """
    if path is None:
        return PairSettings()
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (FileNotFoundError, IsADirectoryError):
        raise ConfigError(f"{path}: no such configuration file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: the file holds no fields")
    fields = _flat(tree)
    used: dict[str, Any] = {}
    for key, (name, read) in _FIELDS.items():
        value = fields.pop(key, None)
        if value is None:
            continue
        try:
            used[name] = read(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{path}: {key} = {value!r}: {error}") from None
    return PairSettings(**used, unused=tuple(fields))


def _flat(tree: dict[Any, Any], prefix: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            fields.update(_flat(value, f"{prefix}{key}."))
        else:
            fields[f"{prefix}{key}"] = value
    return fields


def _positive(value: Any) -> float:
    if type(value) not in (int, float) or not (math.isfinite(value) and value > 0):
        raise ValueError("a positive number is needed")
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError("an integer from 1 on is needed")
    return value


def _seed(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("an integer from 0 on is needed")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("true or false is needed")
    return value


def _numbers(value: Any) -> tuple[float, ...]:
    wanted = "a list of finite numbers is needed"
    if not isinstance(value, list) or not all(type(v) in (int, float) for v in value):
        raise ValueError(wanted)
    if not all(map(math.isfinite, value)):
        raise ValueError(wanted)
    return tuple(map(float, value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a text is needed")
    return value


_FIELDS = {
    "evaluator.timeout": ("timeout_s", _positive),
    "evaluator.cascade_evaluation": ("cascade", _flag),
    "evaluator.cascade_thresholds": ("thresholds", _numbers),
    "evaluator.parallel_evaluations": ("workers", _count),
    "max_iterations": ("evaluations", _count),
    "random_seed": ("seed", _seed),
    "prompt.system_message": ("summary", _text),
}
