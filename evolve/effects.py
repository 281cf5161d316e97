"""How sure a difference between groups of runs is: medians, intervals, probability of improvement.

Runs are the unit: a value a run, and runs of one group differ by their seed alone. Intervals are
percentile bootstraps over runs, as in rliable (Agarwal et al. 2021, "Deep reinforcement learning at
the edge of the statistical precipice", arXiv 2108.13264). They are too narrow for a handful of
runs, and have no width where two groups do not overlap at all; the rank test has neither fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, nan

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Share of the bootstrap draws that an interval holds.
CONFIDENCE = 0.95
#: Bootstrap draws.
DRAWS = 4000
#: Ways to split the runs into two groups up to which the rank test counts all of them.
MAX_SPLITS = 20_000


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval; ``low`` and ``high`` are NaN where too few runs give none."""

    value: float
    low: float = nan
    high: float = nan


def median_band(values: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return the median (t,) over runs, and the ends (t,) of its interval.

    Args:
        values: (n, t), a row a run; whole rows are drawn, so a run stays one piece.
        rng: Draws the runs.

    Returns:
        The ends are NaN with a single run.
    """
    n, width = values.shape
    middle = np.median(values, axis=0)
    if n < 2:
        unknown = np.full(width, nan)
        return middle, unknown, unknown
    rows = rng.integers(0, n, (DRAWS, n))
    low, high = np.empty(width), np.empty(width)
    for place in range(width):
        drawn = np.median(values[:, place][rows], axis=1)
        low[place], high[place] = _ends(drawn)
    return middle, low, high


def median_difference(x: Floats, y: Floats, rng: np.random.Generator) -> Estimate:
    """Return how much larger the median of ``x`` (n,) is than that of ``y`` (m,)."""
    value = float(np.median(x) - np.median(y))
    if min(len(x), len(y)) < 2:
        return Estimate(value)
    a = np.median(x[rng.integers(0, len(x), (DRAWS, len(x)))], axis=1)
    b = np.median(y[rng.integers(0, len(y), (DRAWS, len(y)))], axis=1)
    return Estimate(value, *_ends(a - b))


def improvement(x: Floats, y: Floats, rng: np.random.Generator) -> Estimate:
    """Return the probability that a run of ``x`` (n,) is better than one of ``y`` (m,).

    Larger is better, and a tie counts one half: P = (#{x > y} + #{x = y} / 2) / (n m), Mann and
    Whitney's statistic. Each group is resampled by itself.
    """
    wins = (x[:, None] > y[None, :]) + 0.5 * (x[:, None] == y[None, :])
    value = float(wins.mean())
    n, m = wins.shape
    if min(n, m) < 2:
        return Estimate(value)
    # How often each run is drawn says all that the mean over pairs needs.
    a = rng.multinomial(n, np.full(n, 1 / n), DRAWS) / n
    b = rng.multinomial(m, np.full(m, 1 / m), DRAWS) / m
    return Estimate(value, *_ends(((a @ wins) * b).sum(axis=1)))


def rank_test(x: Floats, y: Floats) -> float:
    """Return the two-sided p-value of Mann and Whitney's test of ``x`` (n,) against ``y`` (m,).

    Exact, ties included, while the splits of all runs into two such groups can be counted: twice
    the share of them with a probability of improvement as large or, if less, as small. Beyond that
    scipy's normal approximation.
    """
    n, m = len(x), len(y)
    if comb(n + m, n) > MAX_SPLITS:
        from scipy.stats import mannwhitneyu

        return float(mannwhitneyu(x, y, method="asymptotic").pvalue)
    values = np.concatenate([x, y])
    # Twice the midrank is a whole number, so that equal sums compare equal.
    ranks = (values[:, None] > values).sum(axis=1) + (values[:, None] >= values).sum(axis=1) + 1
    sums = ranks[np.array(list(combinations(range(n + m), n)))].sum(axis=1)
    found = ranks[:n].sum()
    return min(1.0, 2 * min(float((sums >= found).mean()), float((sums <= found).mean())))


def _ends(drawn: Floats) -> tuple[float, float]:
    rest = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [rest, 1 - rest])
    return float(low), float(high)
