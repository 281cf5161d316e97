"""Online bin packing: six families of instances, and a judge that recounts every bin.

Items come one at a time and a priority function chooses the bin, as in FunSearch (Romera-Paredes
et al., "Mathematical discoveries from program search with large language models", Nature 625,
2024). The instances are generated here, in the manner of the published ones; they are not those.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.task import Case, Descriptor, Invalid, Limits, Objective, Stage, Task

Items = NDArray[np.int64]

#: What a priority function may import: it needs no more, and cannot look ahead with these.
IMPORTS = frozenset({"math", "numpy"})
#: Names that lead from numpy or from a builtin to frames, files or other modules.
PEEKING = frozenset(
    {
        "compile",
        "ctypes",
        "ctypeslib",
        "eval",
        "exec",
        "f2py",
        "gc",
        "getattr",
        "globals",
        "inspect",
    }
    | {"input", "locals", "open", "os", "sys", "testing", "vars"}
    | {"f_back", "f_locals", "gi_frame", "cr_frame", "ag_frame", "tb_frame"}
)


def uniform(n: int, rng: np.random.Generator) -> Items:
    """Return ``n`` sizes uniform on 20..100, for capacity 150: the OR-Library's sets u120 to u1000.

    Source: E. Falkenauer, "A hybrid grouping genetic algorithm for bin packing", 1996.
    """
    return rng.integers(20, 101, n)


def weibull(n: int, rng: np.random.Generator) -> Items:
    """Return ``n`` rounded sizes of a Weibull law, scale 45, shape 3, clipped to 1..100.

    Source: Castiñeiras, De Cauwer and O'Sullivan, "Weibull-based benchmarks for bin packing", 2012;
    parameters as in FunSearch.
    """
    return np.clip(np.rint(45 * rng.weibull(3, n)), 1, 100).astype(np.int64)


def triplets(n: int, rng: np.random.Generator) -> Items:
    """Return ``n`` shuffled sizes that fill bins of 1000 by threes, as OR-Library's t60 to t501.

    Source: Falkenauer 1996: of three, the first is in 380..490, the second at least 250.
    """
    first = rng.integers(380, 491, n // 3)
    second = rng.integers(250, (1000 - first) // 2 + 1)
    return rng.permutation(np.concatenate([first, second, 1000 - first - second]))


def bimodal(n: int, rng: np.random.Generator) -> Items:
    """Return ``n`` sizes for capacity 100, one half on 5..19 and the other on 40..59."""
    return np.where(rng.random(n) < 0.5, rng.integers(5, 20, n), rng.integers(40, 60, n))


def drift(n: int, rng: np.random.Generator) -> Items:
    """Return ``n`` sizes for capacity 100 whose mean grows from 15 to 65 as they come."""
    sizes = np.linspace(15, 65, n) * rng.uniform(0.5, 1.5, n)
    return np.clip(np.rint(sizes), 1, 100).astype(np.int64)


#: Family -> (generator, capacity, items, instances, excess that earns nothing in percent).
FAMILIES: dict[str, tuple[Callable[[int, np.random.Generator], Items], int, int, int, float]] = {
    "uniform_120": (uniform, 150, 120, 4, 15.0),
    "uniform_500": (uniform, 150, 500, 1, 12.0),
    "weibull": (weibull, 100, 1000, 1, 10.0),
    "triplets": (triplets, 1000, 249, 2, 20.0),
    "bimodal": (bimodal, 100, 500, 1, 10.0),
    "drift": (drift, 100, 500, 1, 20.0),
}
_SEED = 20240115


def lower_bound(items: Items, capacity: int) -> int:
    """Return a number of bins that no packing can go below.

    It is L2 of S. Martello and P. Toth, "Lower bounds and reduction procedures for the bin packing
    problem", 1990. For each size a: items above capacity - a go alone, those above capacity / 2
    share no bin, and the rest, from a on, fill what is left or need bins of their own.
    """
    best = 0
    for a in {0, *(int(size) for size in items if 2 * size <= capacity)}:
        alone = items > capacity - a
        large = (2 * items > capacity) & ~alone
        small = (2 * items <= capacity) & (items >= a)
        left = int(large.sum()) * capacity - int(items[large].sum())
        more = max(0, math.ceil((int(items[small].sum()) - left) / capacity))
        best = max(best, int(alone.sum()) + int(large.sum()) + more)
    return best


def make_cases(seed: int = _SEED) -> list[Case]:
    """Return every instance; ``seed`` chooses other ones of the same families."""
    cases = []
    for number, (family, (generate, capacity, n, instances, _)) in enumerate(FAMILIES.items()):
        for index in range(instances):
            items = generate(n, np.random.default_rng([seed, number, index]))
            given = {"capacity": capacity, "items": items.tolist()}
            hidden = {"family": family, "bound": lower_bound(items, capacity)}
            cases.append(Case(f"{family}_{index}", given, hidden))
    return cases


def score(output: Any, case: Case) -> Mapping[str, float]:
    """Return the excess over the lower bound, in percent, of the packing in ``output``.

    Args:
        output: The bin of every item, 0 for the first bin opened.
        case: Items, capacity, and the bound.

    Raises:
        Invalid: If ``output`` is something else, a bin overflows, or a number is skipped.
    """
    items, capacity = case.given["items"], case.given["capacity"]
    if not isinstance(output, list) or len(output) != len(items):
        raise Invalid(f"the answer is not a list of {len(items)} bin numbers")
    room: list[int] = []
    for i, (item, chosen) in enumerate(zip(items, output, strict=True)):
        if type(chosen) is not int or not 0 <= chosen <= len(room):
            raise Invalid(f"item {i}: bin {str(chosen)[:20]} is not one of the {len(room) + 1}")
        if chosen == len(room):
            room.append(capacity)
        room[chosen] -= item
        if room[chosen] < 0:
            raise Invalid(f"item {i}: bin {chosen} overflows")
    bound = case.hidden["bound"]
    return {
        case.hidden["family"]: 100.0 * (len(room) - bound) / bound,
        "full_bins": sum(left == 0 for left in room) / len(room),
    }


def inspect(source: str) -> Mapping[str, float]:
    """Refuse programs that reach for more than arithmetic: the items to come lie in this process.

    Raises:
        Invalid: For an import other than :data:`IMPORTS`, or a name that leads to frames, files or
            other modules.
    """
    for node in ast.walk(ast.parse(source)):
        if name := _forbidden(node):
            line = getattr(node, "lineno", 0)
            raise Invalid(f"line {line}: {name} is not allowed in an online packer")
    return {}


def _forbidden(node: ast.AST) -> str | None:
    names: list[str] = []
    modules: list[str] = []
    if isinstance(node, ast.Name):
        names = [node.id]
    elif isinstance(node, ast.Attribute):
        names = [node.attr]
    elif isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        modules = [str(node.module)]
        names = [alias.name for alias in node.names]
    refused = [module for module in modules if module not in IMPORTS]
    refused += [name for name in names if name in PEEKING or name.startswith("__")]
    return refused[0] if refused else None


_CASES = make_cases()

TASK = Task(
    summary="Online bin packing: priority(item, bins) scores the bins that have room for the item, "
    "bins being their free space, the last one empty; the item goes to the highest score. Use few "
    "bins on each of six families of instances.",
    objectives=[
        Objective(family, 0.0, worst, "min", unit="% over the lower bound")
        for family, (_, _, _, _, worst) in FAMILIES.items()
    ],
    descriptors=[
        Descriptor("ast_nodes", 4.5, 8.5, bins=10, unit="log2 nodes"),
        Descriptor("full_bins", 0.0, 0.6, bins=10, unit="share of the bins filled to the brim"),
    ],
    cases=_CASES,
    score=score,
    inspect=inspect,
    # No floors: a specialist that is hopeless on one family is worth keeping. What the first stage
    # saves is the time of programs that crash or crawl.
    stages=[
        Stage("quick", tuple(case.name for case in _CASES[:4])),
        Stage("all", tuple(case.name for case in _CASES[4:])),
    ],
    limits=Limits(wall_s=2.0, cpu_s=5.0, memory_mb=1024),
    best_known={
        "uniform_120": (5.30, "FunSearch, Nature 625 (2024), on the 20 instances of OR1"),
        "uniform_500": (3.11, "FunSearch, Nature 625 (2024), on the 20 instances of OR3"),
        "weibull": (0.68, "FunSearch, Nature 625 (2024), on 5 instances of 5,000 items"),
    },
)
