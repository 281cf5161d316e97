"""Several archives with the same cells and weights: a ring along which champions travel.

What the figures of one archive mean is defined here, since they are those of a ring of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from evolve.archive import Archive
    from evolve.members import Members


@dataclass(frozen=True)
class ArchiveMetrics:
    """How much of the behaviour space is filled, and how well.

    R is the set utility E_{w ~ Dir(alpha)} [max_s w . r_s] over the Dirichlet draws of the bank (a
    bank without draws has the mean reward in its place). Figures of several archives are those of
    the archive that holds the programs of all.

    Attributes:
        coverage: Occupied share of the cells, in [0, 1].
        qd_score: Sum over cells of the best mean reward, in [0, cells].
        vector_qd_score: Sum over cells of R of the cell's champions, in [0, cells].
        set_utility: R of all programs together, in [0, 1].
        best: (k,) best reward of each objective among the programs held, in [0, 1].
        best_mean: Best mean reward, in [0, 1].
        n_programs: Distinct programs held.
        n_cells: Occupied cells.
    """

    coverage: float
    qd_score: float
    vector_qd_score: float
    set_utility: float
    best: tuple[float, ...]
    best_mean: float
    n_programs: int
    n_cells: int


class Islands:
    """A ring of archives.

    Args:
        archives: At least one; all with the same cells and the same bank.

    Raises:
        ValueError: If there is none, or if they differ.
    """

    def __init__(self, archives: Sequence[Archive]) -> None:
        if not archives:
            raise ValueError("archives is empty, at least one is needed")
        kinds = {(a.cells.fingerprint(), a.bank.fingerprint()) for a in archives}
        if len(kinds) > 1:
            raise ValueError("archives differ in cells or bank, islands must share both")
        self._archives = tuple(archives)

    def __len__(self) -> int:
        return len(self._archives)

    def __iter__(self) -> Iterator[Archive]:
        return iter(self._archives)

    def __getitem__(self, island: int) -> Archive:
        return self._archives[island]

    def migrate(self) -> int:
        """Offer each island's leaders to the next one; return how many were taken.

        The leaders are the island's best program under each weight of the bank, so at most W
        programs travel and an island keeps its own character. All leave before any arrives.
        """
        travellers = [archive.leaders() for archive in self._archives]
        taken = 0
        for island, leaders in enumerate(travellers):
            target = self._archives[(island + 1) % len(self)]
            for id_, rewards, length, cell in leaders:
                taken += target.offer(id_, rewards, length, cell).status != "rejected"
        return taken

    def metrics(self) -> ArchiveMetrics:
        """Return the figures of all islands together."""
        return pooled_metrics(self._archives) if len(self) > 1 else self[0].metrics()


def pooled_metrics(archives: Sequence[Archive]) -> ArchiveMetrics:
    """Return the figures of archives with the same cells and bank."""
    bank, n_cells = archives[0].bank, archives[0].cells.n_cells
    occupied = [archive.occupied() for archive in archives]
    cells = np.unique(np.concatenate(occupied))
    if not len(cells):
        return ArchiveMetrics(0.0, 0.0, 0.0, 0.0, (0.0,) * bank.k, 0.0, 0, 0)
    scores = np.full((len(cells), bank.size), -np.inf)
    for archive, own in zip(archives, occupied, strict=True):
        rows = np.searchsorted(cells, own)
        scores[rows] = np.maximum(scores[rows], archive.scores())
    leaders = scores.max(axis=0)
    members = [archive.members() for archive in archives]
    best = np.max([m.rewards.max(axis=0) for m in members if len(m.ids)], axis=0)
    return ArchiveMetrics(
        coverage=len(cells) / n_cells,
        qd_score=float(scores[:, -1].sum()),
        vector_qd_score=float(scores[:, bank.dirichlet].mean(axis=1).sum()),
        set_utility=float(leaders[bank.dirichlet].mean()),
        best=tuple(best.tolist()),
        best_mean=float(leaders[-1]),
        n_programs=len(members[0].ids) if len(members) == 1 else _distinct(members),
        n_cells=len(cells),
    )


def _distinct(members: Sequence[Members]) -> int:
    return len(np.unique(np.concatenate([m.ids for m in members])))
