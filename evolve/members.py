"""The programs that an archive holds, laid out for selection."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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
        cells, place, counts = np.unique(cell_of, return_inverse=True, return_counts=True)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return cls(ids, rewards, place, cells, starts)

    @cached_property
    def spread(self) -> Floats:
        """Median absolute deviation (k,) of each objective."""
        middle = np.median(self.rewards, axis=0)
        return np.asarray(np.median(np.abs(self.rewards - middle), axis=0))

    @cached_property
    def elites(self) -> tuple[Ints, ...]:
        """For each objective the indices of the programs within its spread of the best."""
        floors = self.rewards.max(axis=0) - self.spread
        return tuple(np.flatnonzero(self.rewards[:, j] >= floor) for j, floor in enumerate(floors))
