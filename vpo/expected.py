"""R(S) = E_w[max_s u(w, r_s)] of many sets at once, in closed form or by quadrature.

The currency is *replicates*, an (n, REPLICATES) array whose row mean is the estimate and whose
spread is its error; a closed form repeats one number. Sums and differences of replicates made with
one :class:`Preference` therefore carry an honest standard error (common random numbers).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gamma, pi
from typing import Literal, get_args

import numpy as np

from vpo import exact, simplex
from vpo.sets import Bools, Floats, Ints, undominated

Scalarizer = Literal["linear", "chebyshev", "hypervolume"]

# Values at the nodes are made for so many sets at a time that they stay in the cache.
_CHUNK_VALUES = 1 << 15
# The closed form for two rows takes (k alpha)^2 / 2 steps; beyond this the quadrature is cheaper.
_MAX_RACE = 128


@dataclass(frozen=True)
class Preference:
    """Which trade-offs count, how they are scored, and how finely they are averaged.

    Attributes:
        alpha: Concentration of w ~ Dir(alpha, ..., alpha). Towards 0, R(S) is the mean over
            objectives of the best row (coverage); towards infinity it is the best mean row.
        scalarizer: ``"linear"``: w.r; ``"chebyshev"``: 1 - max_i w_i (1 - r_i), the R2 indicator
            with the ideal point 1 (Hansen & Jaszkiewicz 1998), which credits rows in concave parts
            of the front too; ``"hypervolume"``: the volume dominated above 0 (Zhang & Golovin
            2020), which has no alpha.
        n_weights: Nodes of the quadrature, a power of 2.
        seed: Seed of the quadrature.
    """

    alpha: float = 1.0
    scalarizer: Scalarizer = "linear"
    n_weights: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        if self.scalarizer not in get_args(Scalarizer):
            allowed = ", ".join(get_args(Scalarizer))
            raise ValueError(f"scalarizer is {self.scalarizer!r}, allowed: {allowed}")
        if not 0.0 < self.alpha < np.inf:
            raise ValueError(f"alpha is {self.alpha}, a positive number is needed")
        if self.scalarizer == "hypervolume" and self.alpha != 1.0:
            raise ValueError("alpha shapes the linear and chebyshev scalarizers, not hypervolume")

    def quadrature(self, k: int) -> simplex.Quadrature:
        """Return the nodes and coefficients for k objectives."""
        if self.scalarizer == "hypervolume":
            return simplex.orthant(k, self.n_weights, self.seed)
        return simplex.dirichlet(k, self.alpha, self.n_weights, self.seed)

    def scores(
        self, rows: Floats, quadrature: simplex.Quadrature, out: Floats | None = None
    ) -> Floats:
        """Return the (n, J) scalarised values of ``rows`` (n, k) at the nodes, in ``out`` if given.

        Fresh memory costs more than the arithmetic, so loops pass the same array again.
        """
        weights = quadrature.weights
        if self.scalarizer == "linear":
            linear: Floats = np.matmul(rows, weights.T, out=out)
            return linear
        k = rows.shape[1]
        values = np.empty((len(rows), len(weights))) if out is None else out
        if self.scalarizer == "chebyshev":
            values.fill(0.0)
            for i in range(k):
                np.maximum(values, np.multiply.outer(1.0 - rows[:, i], weights[:, i]), out=values)
            return np.subtract(1.0, values, out=values)
        values.fill(np.inf)
        for i in range(k):
            np.minimum(values, np.divide.outer(rows[:, i], weights[:, i]), out=values)
        sphere = pi ** (k / 2) / (2.0**k * gamma(k / 2 + 1))
        np.power(values, k, out=values)
        values *= sphere
        return values


def expected_max(rows: Floats, preference: Preference) -> Floats:
    """Return (n, REPLICATES) replicates of R(S) for n sets of one shape.

    Exact for one row, one objective, two rows and whole alpha, two objectives, three objectives
    and alpha = 1 (linear); for up to eight rows (hypervolume). Rows that can win nowhere are
    dropped first, so a repeated or dominated row changes no bit of the result. An empty set is 0.

    Args:
        rows: (n, m, k) reward vectors.
        preference: What to average over.
    """
    n, m, _ = rows.shape
    result = np.zeros((n, simplex.REPLICATES))
    if m == 0:
        return result
    for chosen, left in _pruned(rows, undominated(rows)):
        closed = _closed_form(left, preference)
        result[chosen] = _by_quadrature(left, preference) if closed is None else closed[:, None]
    return result


def expected_gain(rows: Floats, references: Floats, preference: Preference) -> Floats:
    """Return (n, REPLICATES) replicates of E_w[(max_s u(w, r_s) - max_p u(w, r_p))_+].

    Exactly 0 where every row is weakly dominated by a reference, so for a copy. Exact where R of
    the union and of the references is.

    Args:
        rows: (n, m, k) reward vectors.
        references: (n, p, k) vectors to beat; with p = 0 the gain is R(S).
        preference: What to average over.
    """
    n, m, _ = rows.shape
    p = references.shape[1]
    if p == 0:
        return expected_max(rows, preference)
    result = np.zeros((n, simplex.REPLICATES))
    if m == 0:
        return result
    # References first: of equal rows the first is kept.
    union = np.concatenate([references, rows], axis=1)
    keep = undominated(union)
    some = np.flatnonzero(keep[:, p:].any(axis=1))
    for chosen, left in _pruned(union[some], keep[some]):
        index = some[chosen]
        closed = _closed_form(left, preference)
        if closed is None:
            result[index] = _by_quadrature(rows[index], preference, references[index])
        else:
            result[index] = closed[:, None] - expected_max(references[index], preference)
    return result


def best_at_nodes(
    rows: Floats,
    preference: Preference,
    quadrature: simplex.Quadrature,
    buffers: Floats | None = None,
) -> Floats:
    """Return the (n, J) values of the best row of each set at each node.

    Args:
        rows: (n, m, k) reward vectors, m at least 1.
        preference: How they are scored.
        quadrature: The nodes.
        buffers: Scratch memory (2, n, J); the result is the first half.
    """
    if buffers is None:
        buffers = np.empty((2, len(rows), len(quadrature.weights)))
    best = preference.scores(rows[:, 0], quadrature, buffers[0])
    for s in range(1, rows.shape[1]):
        np.maximum(best, preference.scores(rows[:, s], quadrature, buffers[1]), out=best)
    return best


def _pruned(rows: Floats, keep: Bools) -> Iterator[tuple[Ints, Floats]]:
    """Yield positions and kept rows (b, size, k), one pair a size."""
    sizes = keep.sum(axis=1)
    if (sizes == rows.shape[1]).all():
        yield np.arange(len(rows)), rows
        return
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        yield chosen, rows[chosen][keep[chosen]].reshape(len(chosen), int(size), rows.shape[2])


def _closed_form(rows: Floats, preference: Preference) -> Floats | None:
    _, m, k = rows.shape
    alpha = preference.alpha
    value: Floats | None = None
    if k == 1:
        value = rows[:, :, 0].max(axis=1)
    elif preference.scalarizer == "hypervolume":
        value = exact.hypervolume(rows) if m <= exact.MAX_HYPERVOLUME_ROWS else None
    elif preference.scalarizer == "chebyshev":
        value = None
    elif m == 1:
        value = rows[:, 0].mean(axis=1)
    elif k == 2:
        value = exact.best_on_segment(rows, alpha)
    elif m == 2 and alpha == int(alpha) and k * alpha <= _MAX_RACE:
        value = exact.best_of_two(rows, int(alpha))
    elif k == 3 and alpha == 1.0:
        value = exact.best_on_triangle(rows)
    return value


def _by_quadrature(
    rows: Floats, preference: Preference, references: Floats | None = None
) -> Floats:
    n, _, k = rows.shape
    quadrature = preference.quadrature(k)
    result = np.empty((n, simplex.REPLICATES))
    chunk = max(1, min(n, _CHUNK_VALUES // len(quadrature.weights)))
    buffers = np.empty((4, chunk, len(quadrature.weights)))
    for start in range(0, n, chunk):
        part = slice(start, min(start + chunk, n))
        size = part.stop - start
        best = best_at_nodes(rows[part], preference, quadrature, buffers[:2, :size])
        if references is not None:
            floor = best_at_nodes(references[part], preference, quadrature, buffers[2:, :size])
            best -= floor
            np.maximum(best, 0.0, out=best)
        result[part] = quadrature.replicates(best)
    return result
