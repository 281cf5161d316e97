"""The vector archive: in each cell the champions of a fixed weight bank.

A program stands in a cell if it is the best there under at least one weight of the bank; ties go
to the shorter program, then to the smaller id (the older one). "Better" is therefore a total order
under each weight, so what a cell holds depends on the programs offered and not on the order in
which they came, and a champion's score never falls. With :func:`evolve.bank.uniform_bank` this is
the archive of classical MAP-Elites (Mouret and Clune 2015, arXiv 1504.04909).

Units: rewards are in [0, 1] with an empty cell worth 0; descriptors are in the units of the
tessellation's bounds; lengths are characters. What is not finite never gets in: a failed program
has no rewards, and offering one is an error of the caller.

A batch is a sequence of adds: its second newcomer to a cell is judged against its first. Here
pyribs 0.12 judges a whole batch against the archive as it was before, so that both are "new"; the
archive is the same afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evolve.added import STATUSES, Added, AddedBatch
from evolve.bank import WeightBank, finite_row, finite_rows, uniform_bank, weight_bank
from evolve.islands import ArchiveMetrics, Islands, pooled_metrics
from evolve.members import Members
from evolve.tessellation import Tessellation

__all__ = [
    "STATUSES",
    "Added",
    "AddedBatch",
    "Archive",
    "ArchiveMetrics",
    "Islands",
    "Members",
    "WeightBank",
    "uniform_bank",
    "weight_bank",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# From so many programs on arrays are quicker than one add after the other: with one weight (when
# an add is a few operations on floats), and with several.
_VECTOR_FROM = (24, 6)

_CODES = {name: code for code, name in enumerate(STATUSES)}


class Archive:
    """Champions by cell and weight.

    An id stands for one program: offered again, it must come with the same rewards, descriptors
    and length, and then nothing changes.

    Args:
        cells: The tessellation.
        bank: The weights.
    """

    def __init__(self, cells: Tessellation, bank: WeightBank) -> None:
        self.cells = cells
        self.bank = bank
        self._uniform: list[float] = bank.weights[-1].tolist()
        # Cells get a slot, a row of the champion arrays, when they are first occupied.
        self._slot_of = np.full(cells.n_cells, -1, dtype=np.int64)
        self._n_slots = 0
        self._cell_of = np.empty(0, dtype=np.int64)
        self._scores = np.empty((0, bank.size))
        self._champions = np.empty((0, bank.size), dtype=np.int64)
        # Programs get a row when they are taken. Rows of the displaced go when room is needed.
        self._n_rows = 0
        self._ids = np.empty(0, dtype=np.int64)
        self._lengths = np.empty(0, dtype=np.int64)
        self._slots = np.empty(0, dtype=np.int64)
        self._rewards = np.empty((0, bank.k))
        self._members: Members | None = None
        self._metrics: ArchiveMetrics | None = None

    def add(self, id: int, rewards: Any, descriptors: Any, length: int) -> Added:  # noqa: A002
        """Offer one program.

        Args:
            id: Its number; a smaller one is older.
            rewards: (k,) finite numbers, larger being better.
            descriptors: (d,) finite numbers.
            length: Length of its text.

        Raises:
            ValueError: If a shape does not fit or a number is not finite; the archive is unchanged.
        """
        row = finite_row(rewards, self.bank.k, "rewards")
        cell = self.cells.locate(finite_row(descriptors, self.cells.d, "descriptors"))
        return self.offer(id, row, length, cell)

    def offer(self, id: int, rewards: Sequence[float], length: int, cell: int) -> Added:  # noqa: A002
        """Offer a program whose cell is known; as :meth:`add`, but nothing is checked."""
        if self.bank.size == 1:
            score = 0.0
            for reward, weight in zip(rewards, self._uniform, strict=True):
                score += reward * weight
            return self._offer_scalar(id, rewards, score, length, cell)
        return self._offer_vector(id, rewards, self.bank.scores(rewards), length, cell)

    def add_batch(
        self,
        ids: npt.ArrayLike,
        rewards: npt.ArrayLike,
        descriptors: npt.ArrayLike,
        lengths: npt.ArrayLike,
    ) -> AddedBatch:
        """Offer n programs, with the outcome of one :meth:`add` after the other.

        Args:
            ids: (n,) different numbers.
            rewards: (n, k) finite numbers.
            descriptors: (n, d) finite numbers.
            lengths: (n,) lengths of their texts.

        Raises:
            ValueError: If a shape does not fit or a number is not finite; the archive is unchanged.
        """
        numbers = np.asarray(ids, dtype=np.int64)
        n = len(numbers) if numbers.ndim == 1 else -1
        sizes = np.asarray(lengths, dtype=np.int64)
        if n < 0 or sizes.shape != (n,):
            raise ValueError(
                f"ids has shape {numbers.shape} and lengths {sizes.shape}, (n,) is needed twice"
            )
        R = finite_rows(rewards, n, self.bank.k, "rewards")
        points = finite_rows(descriptors, n, self.cells.d, "descriptors")
        if n < _VECTOR_FROM[self.bank.size > 1]:
            ids_, rows, texts = numbers.tolist(), R.tolist(), sizes.tolist()
            cells = list(map(self.cells.locate, points.tolist()))
            if self.bank.size == 1:
                scores = self.bank.rows_of_scores(R)[:, 0].tolist()
                added = list(map(self._offer_scalar, ids_, rows, scores, texts, cells))
            else:
                added = list(map(self.offer, ids_, rows, texts, cells))
            status, value, _ = zip(*added, strict=True) if added else ((), (), ())
            return AddedBatch(
                np.array([_CODES[name] for name in status], dtype=np.int8),
                np.array(value, dtype=np.float64),
                np.array(cells, dtype=np.int64),
            )
        batch = AddedBatch(np.zeros(n, dtype=np.int8), np.zeros(n), self.cells.cell_of(points))
        self._offer_many(batch, numbers, R, sizes)
        return batch

    def occupied(self) -> Ints:
        """Return the occupied cells (n,), ascending."""
        return np.sort(self._cell_of[: self._n_slots])

    def scores(self) -> Floats:
        """Return the champions' scores (n, W), rows as in :meth:`occupied`, columns as the bank."""
        return self._scores[self._slot_of[self.occupied()]]

    def champions(self, cell: int) -> Ints:
        """Return the ids (W,) of a cell's champions, one a weight.

        Raises:
            ValueError: If the cell is empty or there is no such cell.
        """
        ids: Ints = self._ids[self._champions[self._occupied_slot(cell)]]
        return ids

    def champion_rewards(self, cell: int) -> Floats:
        """Return the rewards (W, k) of a cell's champions.

        Raises:
            ValueError: If the cell is empty or there is no such cell.
        """
        rewards: Floats = self._rewards[self._champions[self._occupied_slot(cell)]]
        return rewards

    def ids(self) -> Ints:
        """Return the ids of the programs held, ascending."""
        return np.sort(self._ids[self._held()])

    def members(self) -> Members:
        """Return the programs held, by cell; the same object until the archive changes."""
        if self._members is None:
            held = self._held()
            cells = self._cell_of[self._slots[held]]
            order = held[np.lexsort((self._ids[held], cells))]
            self._members = Members.of(
                self._ids[order], self._rewards[order], self._cell_of[self._slots[order]]
            )
        return self._members

    def leaders(self) -> list[tuple[int, list[float], int, int]]:
        """Return (id, rewards, length, cell) of the archive's best program under each weight.

        Each program is named once; ids ascend.
        """
        if not self._n_slots:
            return []
        scores = self._scores[: self._n_slots]
        best: dict[int, tuple[int, int, int]] = {}
        for slot, weight in np.argwhere(scores == scores.max(axis=0)).tolist():
            row = self._champions.item(slot, weight)
            key = (self._lengths.item(row), self._ids.item(row), row)
            best[weight] = min(best.get(weight, key), key)
        rows = sorted({(id_, row, length) for length, id_, row in best.values()})
        return [
            (id_, self._rewards[row].tolist(), length, self._cell_of.item(self._slots.item(row)))
            for id_, row, length in rows
        ]

    def metrics(self) -> ArchiveMetrics:
        """Return the figures of this archive; computed once between changes."""
        if self._metrics is None:
            self._metrics = pooled_metrics([self])
        return self._metrics

    def digest(self) -> str:
        """Return a hash of the exact state: cells, bank, and the champions of each cell."""
        hasher = hashlib.blake2b(self.cells.fingerprint() + self.bank.fingerprint(), digest_size=16)
        occupied = self.occupied()
        slots = self._slot_of[occupied]
        rows = self._champions[slots]
        for integers in (occupied, self._ids[rows], self._lengths[rows]):
            hasher.update(integers.astype("<i8").tobytes())
        for floats in (self._scores[slots], self._rewards[rows]):
            hasher.update(floats.astype("<f8").tobytes())
        return hasher.hexdigest()

    def _occupied_slot(self, cell: int) -> int:
        slot = self._slot_of.item(cell) if 0 <= cell < self.cells.n_cells else -1
        if slot < 0:
            raise ValueError(f"cell {cell} is not occupied")
        return slot

    def _held(self) -> Ints:
        """Return the rows of the programs that are champions, ascending."""
        flags = np.zeros(self._n_rows, dtype=bool)
        flags[self._champions[: self._n_slots]] = True
        return np.flatnonzero(flags)

    def _offer_scalar(
        self, id_: int, rewards: Sequence[float], score: float, length: int, cell: int
    ) -> Added:
        # Plain floats: with one weight numpy's cost for each call would be nearly all of the time.
        slot = self._slot_of.item(cell)
        if slot < 0:
            self._reserve(1)
            slot = self._open(cell)
            status, value = STATUSES[2], score
        else:
            champion = self._scores.item(slot, 0)
            if score < champion or (score == champion and not self._wins_tie(slot, id_, length)):
                return Added("rejected", 0.0, cell)
            self._reserve(1)
            status, value = STATUSES[1], score - champion
        self._scores[slot, 0] = score
        self._champions[slot, 0] = self._take(id_, rewards, length, slot)
        return Added(status, value, cell)

    def _wins_tie(self, slot: int, id_: int, length: int) -> bool:
        row = self._champions.item(slot, 0)
        return (length, id_) < (self._lengths.item(row), self._ids.item(row))

    def _offer_vector(
        self, id_: int, rewards: Sequence[float], scores: Floats, length: int, cell: int
    ) -> Added:
        slot = self._slot_of.item(cell)
        if slot < 0:
            self._reserve(1)
            slot = self._open(cell)
            self._scores[slot] = scores
            self._champions[slot] = self._take(id_, rewards, length, slot)
            return Added("new", float(scores.sum() / self.bank.size), cell)
        better = self._beats(scores, slot, id_, length)
        if not np.count_nonzero(better):
            return Added("rejected", 0.0, cell)
        self._reserve(1)
        champions = self._scores[slot]
        gain = np.where(better, scores - champions, 0.0).sum() / self.bank.size
        np.copyto(champions, scores, where=better)
        np.copyto(self._champions[slot], self._take(id_, rewards, length, slot), where=better)
        return Added("improved", float(gain), cell)

    def _offer_many(self, batch: AddedBatch, ids: Ints, R: Floats, lengths: Ints) -> None:
        scores = self.bank.rows_of_scores(R)
        # Room for all of them first: making it renumbers rows, and new slots have none yet.
        self._reserve(len(ids))
        fresh = np.flatnonzero(self._slot_of[batch.cell] < 0)
        if len(fresh):
            cells = batch.cell[fresh]
            self._open_all(cells[_firsts(cells, self._slot_of)])
        slots = self._slot_of[batch.cell]
        scratch = np.empty(self._n_slots, dtype=np.int64)
        pending = np.arange(len(ids))
        while True:
            # Champions only rise: who beats none of them now is rejected for good.
            better = self._beats(
                scores[pending], slots[pending], ids[pending, None], lengths[pending, None]
            )
            beats = better.any(axis=1) if self.bank.size > 1 else better[:, 0]
            pending, better = pending[beats], better[beats]
            if not len(pending):
                return
            # The first of each cell are taken together; the others then face a new champion.
            first = _firsts(slots[pending], scratch)
            now, better = pending[first], better[first]
            slot, score = slots[now], scores[now]
            champions, rows = self._scores[slot], self._champions[slot]
            new = rows[:, 0] < 0
            gain = np.where(better, score - np.where(new[:, None], 0.0, champions), 0.0)
            batch.value[now] = gain.sum(axis=1) / self.bank.size
            batch.status[now] = 1 + new
            row = self._take_all(ids[now], R[now], lengths[now], slot)
            self._scores[slot] = np.where(better, score, champions)
            self._champions[slot] = np.where(better, row[:, None], rows)
            pending = pending[~first]

    def _beats(self, scores: Floats, slots: Any, ids: Any, lengths: Any) -> npt.NDArray[np.bool_]:
        """Return where ``scores`` (..., W) beat the champions of ``slots``, ties included."""
        champions = self._scores[slots]
        better: npt.NDArray[np.bool_] = scores > champions
        tie = scores == champions
        if np.count_nonzero(tie):
            rows = self._champions[slots]
            held = self._lengths[rows]
            better |= tie & ((lengths < held) | ((lengths == held) & (ids < self._ids[rows])))
        return better

    def _take(self, id_: int, rewards: Sequence[float], length: int, slot: int) -> int:
        row = self._n_rows
        self._ids[row] = id_
        self._lengths[row] = length
        self._slots[row] = slot
        self._rewards[row] = rewards
        self._n_rows += 1
        self._members = self._metrics = None
        return row

    def _take_all(self, ids: Ints, R: Floats, lengths: Ints, slots: Ints) -> Ints:
        rows = self._n_rows + np.arange(len(ids))
        fill = slice(self._n_rows, self._n_rows + len(ids))
        self._ids[fill] = ids
        self._lengths[fill] = lengths
        self._slots[fill] = slots
        self._rewards[fill] = R
        self._n_rows += len(ids)
        self._members = self._metrics = None
        return rows

    def _open(self, cell: int) -> int:
        slot = self._n_slots
        self._grow(1)
        self._slot_of[cell] = slot
        self._cell_of[slot] = cell
        self._n_slots += 1
        return slot

    def _open_all(self, cells: Ints) -> None:
        self._grow(len(cells))
        fill = slice(self._n_slots, self._n_slots + len(cells))
        self._slot_of[cells] = np.arange(fill.start, fill.stop)
        self._cell_of[fill] = cells
        self._scores[fill] = -np.inf
        self._champions[fill] = -1
        self._n_slots = fill.stop

    def _grow(self, more: int) -> None:
        """Make room for so many slots more."""
        need = self._n_slots + more
        if need > len(self._cell_of):
            room = min(max(2 * need, 64), self.cells.n_cells)
            self._cell_of = _moved(self._cell_of[: self._n_slots], room)
            self._scores = _moved(self._scores[: self._n_slots], room)
            self._champions = _moved(self._champions[: self._n_slots], room)

    def _reserve(self, more: int) -> None:
        """Make room for so many programs more, the displaced ones leaving first."""
        if self._n_rows + more <= len(self._ids):
            return
        held = self._held()
        renumbered = np.full(self._n_rows, -1)
        renumbered[held] = np.arange(len(held))
        self._champions[: self._n_slots] = renumbered[self._champions[: self._n_slots]]
        room = max(2 * (len(held) + more), 64)
        self._ids = _moved(self._ids[held], room)
        self._lengths = _moved(self._lengths[held], room)
        self._slots = _moved(self._slots[held], room)
        self._rewards = _moved(self._rewards[held], room)
        self._n_rows = len(held)


def _firsts(keys: Ints, scratch: Ints) -> npt.NDArray[np.bool_]:
    """Return where a key occurs for the first time; overwrites ``scratch[keys]``."""
    positions = np.arange(len(keys))
    # Of several values written to one place the last stays, which backwards is the first.
    scratch[keys[::-1]] = positions[::-1]
    first: npt.NDArray[np.bool_] = scratch[keys] == positions
    return first


def _moved(rows: npt.NDArray[Any], room: int) -> Any:
    larger = np.empty((room, *rows.shape[1:]), dtype=rows.dtype)
    larger[: len(rows)] = rows
    return larger
