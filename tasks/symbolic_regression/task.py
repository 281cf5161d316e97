"""Symbolic regression: five noisy data sets, one short list of terms that has to serve them all.

In the manner of LLM-SRBench (Shojaee et al., 2025): a program states the form of a law, constants
are fitted to data, and the law is judged on points that the fit has not seen. The data are made
here from five known laws; what is held out never leaves the judge.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

Array = NDArray[np.float64]

#: Data set -> y(a, b).
LAWS: dict[str, Callable[[Array, Array], Array]] = {
    # Swinging with friction: displacement a, speed b.
    "pendulum": lambda a, b: -1.5 * np.sin(2.0 * a) - 0.4 * b,
    # An enzyme after Michaelis and Menten: substrate a, inhibitor b.
    "enzyme": lambda a, b: 3.0 * a / (0.6 + a) - 0.5 * b,
    # Attraction along one axis: a across, b ahead.
    "gravity": lambda a, b: 2.0 * b / (a * a + b * b) ** 1.5,
    # A loaded capacitor: time a, voltage b.
    "discharge": lambda a, b: 1.2 * b * np.exp(-0.8 * a) + 0.3,
    # Kepler's third law: axis a, mass b.
    "orbit": lambda a, b: 1.1 * np.sqrt(a**3 / b),
}
#: Noise, in units of the spread of the noiseless values.
NOISE = 0.02
TRAIN, HELD_OUT = 60, 200
_SEED = 20250411
_IMPORTS = frozenset({"math", "numpy"})
# Text that is run escapes the count of the formula's size.
_HIDING = frozenset({"compile", "eval", "exec", "getattr", "globals", "vars", "locals"})


def make_cases(seed: int = _SEED) -> list[Case]:
    """Return the data sets; ``seed`` chooses other points and noise for the same laws.

    Both variables are uniform on 0.4..3 in training; one half of the held-out points is too, the
    other comes from 0.3..3.5, so that a law has to hold beyond its data.
    """
    cases = []
    for number, (name, law) in enumerate(LAWS.items()):
        rng = np.random.default_rng([seed, number])
        train = rng.uniform(0.4, 3.0, (TRAIN, 2))
        inside = rng.uniform(0.4, 3.0, (HELD_OUT // 2, 2))
        held_out = np.concatenate([inside, rng.uniform(0.3, 3.5, (HELD_OUT - len(inside), 2))])
        y, truth = law(*train.T), law(*held_out.T)
        y_noisy = y + NOISE * y.std() * rng.standard_normal(TRAIN)
        held_out_y = truth + NOISE * y.std() * rng.standard_normal(HELD_OUT)
        given = {"train": train, "y": y_noisy, "held_out": held_out}
        hidden = {
            "name": name,
            "y": held_out_y,
            "floor": _relative_error(truth, held_out_y),
        }
        cases.append(Case(name, given, hidden))
    return cases


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return log10 of the error of the predictions in ``output``, relative to the spread of y.

    Args:
        output: One prediction for each held-out point.
        case: Its ``hidden["y"]`` holds the measured values.

    Raises:
        Invalid: If ``output`` is something else.
    """
    y = case.hidden["y"]
    try:
        prediction = np.asarray(output)
    except ValueError:
        raise Invalid("the predictions are not a flat sequence of numbers") from None
    if prediction.dtype.kind not in "iuf" or prediction.shape != y.shape:
        raise Invalid(f"the predictions are not a flat sequence of {len(y)} numbers")
    prediction = prediction.astype(np.float64)
    if not np.isfinite(prediction).all():
        raise Invalid("a prediction is not finite")
    return {case.hidden["name"]: _relative_error(prediction, y)}


def inspect(source: str) -> Mapping[str, float]:
    """Return the size of the program: its syntax nodes, docstrings left out.

    Raises:
        Invalid: For imports other than ``math`` and ``numpy``, or a name that can run text, which
            would hide a formula from the count.
    """
    size = 0
    for node in ast.walk(ast.parse(source)):
        size += not isinstance(node, ast.expr_context)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            size -= 2
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                modules = [str(node.module)]
            for module in modules:
                if module not in _IMPORTS:
                    raise Invalid(f"line {node.lineno}: {module} is not allowed in a formula")
        if isinstance(node, ast.Name) and (node.id in _HIDING or node.id.startswith("__")):
            raise Invalid(f"line {node.lineno}: {node.id} is not allowed in a formula")
    return {"size": float(size)}


def _relative_error(prediction: Array, y: Array) -> float:
    # The cap keeps the square of 1e300 finite; it is far beyond the range that earns anything.
    error = np.minimum(np.abs(prediction - y), 1e100)
    return math.log10(max(float(np.sqrt(np.mean(error**2)) / y.std()), 1e-12))


_CASES = make_cases()

TASK = Task(
    summary="Symbolic regression: terms(a, b) returns up to 6 numpy arrays of the shape of a; a "
    "constant and their coefficients are fitted by least squares to each of five noisy data sets. "
    "Predict held-out points of all five with a small program.",
    objectives=[
        *(Objective(name, -1.75, 0.0, "min", unit="log10 error/spread") for name in LAWS),
        Objective("size", 20.0, 100.0, "min", unit="syntax nodes"),
    ],
    descriptors=[
        Descriptor("ast_nodes", 4.0, 8.0, bins=10, unit="log2 nodes"),
        Descriptor("library_calls", 0.0, 12.0, bins=12, unit="calls"),
    ],
    cases=_CASES,
    score=score,
    inspect=inspect,
    stages=[Stage("one", (_CASES[0].name,)), Stage("rest", tuple(c.name for c in _CASES[1:]))],
    limits=Limits(wall_s=2.0, cpu_s=2.0, memory_mb=1024),
    best_known={
        c.hidden["name"]: (round(c.hidden["floor"], 4), "the true law: what noise leaves")
        for c in _CASES
    },
)
