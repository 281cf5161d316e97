"""The weight bank: the trade-offs between objectives for which an archive keeps champions.

Rewards are expected in [0, 1], larger being better, 0 being worth nothing: an empty cell counts 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightBank:
    """Weights on the simplex, in the order: Dirichlet draws, unit vectors, uniform.

    Attributes:
        weights: (W, k), rows of non-negative numbers that sum to 1; the last row is uniform.
        n_dirichlet: How many of the first rows are draws from Dir(alpha).
    """

    weights: Floats
    n_dirichlet: int

    @property
    def k(self) -> int:
        """Number of objectives."""
        return int(self.weights.shape[1])

    @property
    def size(self) -> int:
        """Number of weights W."""
        return len(self.weights)

    @property
    def dirichlet(self) -> slice:
        """Rows that estimate E_{w ~ Dir(alpha)}; the uniform one alone if none was drawn."""
        return slice(0, self.n_dirichlet) if self.n_dirichlet else slice(self.size - 1, self.size)

    @cached_property
    def _columns(self) -> list[Floats]:
        return [np.ascontiguousarray(column) for column in self.weights.T]

    def scores(self, rewards: Sequence[float]) -> Floats:
        """Return w . r (W,) of one reward vector of k floats.

        Terms are added in the order of the objectives, here and for many vectors: a score does not
        depend on the company in which it is computed. A matrix product gives no such promise, and
        ties between programs hang on the last bit.
        """
        columns = self._columns
        total = columns[0] * rewards[0]
        for column, reward in zip(columns[1:], rewards[1:], strict=True):
            total += column * reward
        return total

    def rows_of_scores(self, R: Floats) -> Floats:
        """Return w . r (n, W) of n reward vectors (n, k), to the last bit as :meth:`scores`."""
        total = R[:, 0, None] * self._columns[0]
        for objective in range(1, self.k):
            total += R[:, objective, None] * self._columns[objective]
        return total

    def fingerprint(self) -> bytes:
        """Return bytes that are equal for equal banks only."""
        shape = np.array([*self.weights.shape, self.n_dirichlet], dtype="<i8")
        return shape.tobytes() + self.weights.astype("<f8").tobytes()


def weight_bank(k: int, alpha: float, n: int, rng: np.random.Generator) -> WeightBank:
    """Return n draws from Dir(alpha, ..., alpha), the k unit vectors and the uniform weight.

    With one objective all weights are equal, and the bank holds just that one.

    Args:
        k: Number of objectives, at least 1.
        alpha: Concentration, positive and finite; 1 is uniform on the simplex.
        n: Number of draws, 0 or more.
        rng: Draws the weights.

    Raises:
        ValueError: If a number is out of range.
    """
    if k < 1:
        raise ValueError(f"k is {k}, at least 1 objective is needed")
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha is {alpha}, a positive number is needed")
    if n < 0:
        raise ValueError(f"n is {n}, 0 or more is needed")
    if k == 1:
        return uniform_bank(1)
    drawn = rng.dirichlet(np.full(k, alpha), n)
    return WeightBank(np.vstack([drawn, np.eye(k), np.full((1, k), 1 / k)]), n)


def uniform_bank(k: int) -> WeightBank:
    """Return the uniform weight alone: with it an archive is classical MAP-Elites on the mean.

    Raises:
        ValueError: If ``k`` is below 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}, at least 1 objective is needed")
    return WeightBank(np.full((1, k), 1 / k), 0)


def finite_row(values: Any, n: int, name: str) -> list[float]:
    """Return ``values`` as a list of n finite floats.

    Raises:
        ValueError: One line that names the argument and what is wrong with it.
    """
    try:
        # tolist() first: float() of numpy scalars one by one is several times slower.
        row = [float(v) for v in (values.tolist() if isinstance(values, np.ndarray) else values)]
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {values!r}, {n} numbers are needed") from None
    if len(row) != n:
        raise ValueError(f"{name} has {len(row)} numbers, {n} are needed")
    for value in row:
        # Only for NaN and the infinities does x - x differ from 0.
        if value - value != 0.0:
            raise ValueError(f"{name} is {row}, finite numbers are needed")
    return row


def finite_rows(values: Any, n: int, width: int, name: str) -> Floats:
    """Return ``values`` as an array (n, width) of finite floats.

    Raises:
        ValueError: One line that names the argument and what is wrong with it.
    """
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: an array ({n}, {width}) of numbers is needed") from None
    if rows.shape != (n, width):
        raise ValueError(f"{name} has shape {rows.shape}, ({n}, {width}) is needed")
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise ValueError(f"{name}[{bad}] is {rows[bad].tolist()}, finite numbers are needed")
    return rows
