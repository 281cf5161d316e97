"""The programs that an archive holds, laid out for selection."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layers:
    """Programs by rank within their cell: the first of every cell, the second of those with two...

    With cells in descending order of size each layer is a prefix of the one before, and a maximum
    over cells is a few array operations; ``np.maximum.reduceat`` takes about five times as long.

    Attributes:
        order: (C,) indices into :attr:`Members.cells`, the fullest cell first.
        rewards: (k, P), layer after layer.
        sizes: Cells in each layer; they sum to P.
    """

    order: Ints
    rewards: Floats
    sizes: list[int]

    def best(self, weights: Floats) -> Floats:
        """Return max_s w . r_s (b, C) of each cell, in ``order``, for weights (b, k)."""
        scores = weights @ self.rewards
        n_cells = self.sizes[0]
        tops, end = scores[:, :n_cells].copy(), n_cells
        for size in self.sizes[1:]:
            tops[:, :size] = np.maximum(tops[:, :size], scores[:, end : end + size])
            end += size
        return tops


@dataclass(frozen=True, eq=False)
class Members:
    """P distinct programs in C occupied cells, by ascending cell and then id.

    Attributes:
        ids: (P,) their numbers.
        rewards: (P, k).
        place: (P,) index into ``cells`` of each program's cell.
        cells: (C,) the occupied cells, ascending.
        starts: (C + 1,) the programs of ``cells[c]`` are ``starts[c]:starts[c + 1]``.
    """

    ids: Ints
    rewards: Floats
    place: Ints
    cells: Ints
    starts: Ints

    @classmethod
    def of(cls, ids: Ints, rewards: Floats, cell_of: Ints) -> Members:
        """Return the layout of programs already in order, given the cell (P,) of each."""
        opens = np.ones(len(ids), dtype=bool)
        opens[1:] = cell_of[1:] != cell_of[:-1]
        starts, place = np.append(np.flatnonzero(opens), len(ids)), np.cumsum(opens) - 1
        cells = cell_of[opens]
        return cls(ids, rewards, place, cells, starts)

    @cached_property
    def layers(self) -> Layers:
        """The rewards once more, laid out for maxima over cells."""
        counts = np.diff(self.starts)
        order = np.argsort(-counts, kind="stable")
        first, counts = self.starts[:-1][order], counts[order]
        sizes = [int(np.count_nonzero(counts > depth)) for depth in range(counts[0])]
        rows = np.concatenate([first[:size] + depth for depth, size in enumerate(sizes)])
        return Layers(order, np.ascontiguousarray(self.rewards[rows].T), sizes)

    @property
    def k(self) -> int:
        """Number of objectives."""
        return int(self.rewards.shape[1])

    @cached_property
    def columns(self) -> tuple[Floats, ...]:
        """The rewards (P,) in each objective, contiguous."""
        return tuple(np.ascontiguousarray(column) for column in self.rewards.T)

    @cached_property
    def spread(self) -> Floats:
        """Median absolute deviation (k,) of each objective."""
        middle = np.median(self.rewards, axis=0)
        return np.asarray(np.median(np.abs(self.rewards - middle), axis=0))

    @cached_property
    def elites(self) -> tuple[Ints, ...]:
        """For each objective the indices of the programs within its spread of the best."""
        floors = self.rewards.max(axis=0) - self.spread
        return tuple(
            np.flatnonzero(column >= floor)
            for column, floor in zip(self.columns, floors, strict=True)
        )
