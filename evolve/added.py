"""What an archive answers to an offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Status = Literal["rejected", "improved", "new"]

#: Names of the codes in :attr:`AddedBatch.status`, which are those of pyribs.
STATUSES: tuple[Status, Status, Status] = ("rejected", "improved", "new")


class Added(NamedTuple):
    """What the archive did with a program.

    Attributes:
        status: ``"new"`` if it opened its cell, ``"improved"`` if it became a champion there (by a
            higher score, or by a tie with less text or a smaller id), else ``"rejected"``.
        value: Mean over the bank of the gain in score, 0 where the champion stays; in a new cell
            the mean score itself. In [0, 1] for rewards in [0, 1].
        cell: Its cell.
    """

    status: Status
    value: float
    cell: int


@dataclass(frozen=True, eq=False)
class AddedBatch:
    """What the archive did with n programs.

    Attributes:
        status: (n,) codes: 0 rejected, 1 improved, 2 new.
        value: (n,) as :attr:`Added.value`.
        cell: (n,) cells.
    """

    status: npt.NDArray[np.int8]
    value: npt.NDArray[np.float64]
    cell: npt.NDArray[np.int64]
