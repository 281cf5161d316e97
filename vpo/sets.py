"""Sets of reward vectors: what the library accepts, checked once and grouped by shape.

A rollout with m answers on k objectives is an (m, k) matrix. m may differ from rollout to rollout
and k from prompt to prompt; inside the library everything is dense, one :class:`Bucket` a shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.intp]
Bools: TypeAlias = npt.NDArray[np.bool_]

#: A dense (n, m, k) array, or n matrices of shapes (m_i, k_i).
RewardBatch: TypeAlias = npt.NDArray[Any] | Sequence[Any]


# Objectives compared for all pairs of rows at once; random rows rarely survive so many.
_DENSE_OBJECTIVES = 3


@dataclass(frozen=True)
class Bucket:
    """All sets of one shape.

    Attributes:
        index: (b,) positions in the batch.
        rows: (b, m, k) reward vectors of the answers.
        references: (b, p, k) what the answers are compared with; p is 0 where there is nothing.
    """

    index: Ints
    rows: Floats
    references: Floats


def by_shape(rewards: RewardBatch, references: RewardBatch | None = None) -> list[Bucket]:
    """Return the sets and their references, checked and grouped by (m, k, p).

    Args:
        rewards: (n, m, k) array or n matrices (m_i, k_i); ``[]`` is a rollout without an answer.
        references: None, or for each set a matrix (p_i, k_i) or None.

    Raises:
        ValueError: If a shape does not fit or a number is not finite.
    """
    n = len(rewards)
    if references is None and (dense := _dense(rewards)) is not None:
        if 0 in dense.shape[2:]:
            raise ValueError(f"rewards: shape {dense.shape}, at least one objective is needed")
        _check_finite(dense, "rewards")
        nothing = np.empty((n, 0, dense.shape[2]))
        return [Bucket(np.arange(n), dense, nothing)] if n else []
    sets = _matrices(rewards, "rewards")
    if references is not None and len(references) != n:
        raise ValueError(f"references: {len(references)} given for {n} sets, one each is needed")
    none = np.empty((0, 0))
    given = [none] * n if references is None else [none if r is None else r for r in references]
    refs = _matrices(given, "references")
    members: dict[tuple[int, int, int], list[int]] = {}
    for i, (matrix, ref) in enumerate(zip(sets, refs, strict=True)):
        m, k = matrix.shape
        if len(ref) and m and ref.shape[1] != k:
            raise ValueError(f"references[{i}]: {ref.shape[1]} objectives, the rewards have {k}")
        members.setdefault((m, k, len(ref)), []).append(i)
    return [
        Bucket(
            np.array(index, dtype=np.intp),
            np.stack([sets[i] for i in index]),
            np.stack([refs[i] for i in index]) if p else np.empty((len(index), 0, k)),
        )
        for (_, k, p), index in members.items()
    ]


def _dense(rewards: RewardBatch) -> Floats | None:
    """Return the batch as one array if it obviously is one."""
    if not isinstance(rewards, np.ndarray):
        if not all(isinstance(m, np.ndarray) and m.ndim == 2 and m.size for m in rewards):
            return None
        if len({matrix.shape for matrix in rewards}) != 1:
            return None
        rewards = np.array(rewards)
    return rewards.astype(np.float64, copy=False) if rewards.ndim == 3 else None


def _matrices(batch: RewardBatch, name: str) -> list[Floats]:
    if isinstance(batch, np.ndarray) and batch.ndim != 3:
        raise ValueError(f"{name}: shape {batch.shape}, a batch is (n, m, k) or a list of (m, k)")
    matrices = [np.asarray(matrix, dtype=np.float64) for matrix in batch]
    for i, matrix in enumerate(matrices):
        if matrix.size == 0 and matrix.ndim <= 2:
            matrices[i] = matrix.reshape(0, matrix.shape[1] if matrix.ndim == 2 else 0)
        elif matrix.ndim != 2:
            raise ValueError(
                f"{name}[{i}]: shape {matrix.shape}, a matrix (answers, objectives) is needed"
            )
    _check_finite(matrices, name)
    return matrices


def _check_finite(matrices: Floats | Sequence[Floats], name: str) -> None:
    if isinstance(matrices, np.ndarray):
        fine = bool(np.isfinite(matrices).all())
    else:
        fine = not matrices or bool(
            np.isfinite(np.concatenate([m.ravel() for m in matrices])).all()
        )
    if not fine:  # only then is the culprit looked for
        bad = next(i for i, matrix in enumerate(matrices) if not np.isfinite(matrix).all())
        raise ValueError(f"{name}[{bad}]: NaN or infinity, finite rewards are needed")


def undominated(rows: Floats) -> Bools:
    """Return the (n, m) mask of rows that no other row of their set weakly dominates.

    Of equal rows the first stays. The other rows can win under no weight, so that R(S) does not
    depend on them.

    Args:
        rows: (n, m, k) reward vectors.
    """
    n, m, k = rows.shape
    keep = np.ones((n, m), dtype=bool)
    if m < 2 or n == 0:
        return keep
    covered = ~np.broadcast_to(np.eye(m, dtype=bool), (n, m, m))  # [i, s, t]: t at least s so far
    for objective in range(min(k, _DENSE_OBJECTIVES)):
        column = rows[:, :, objective]
        covered &= column[:, None, :] >= column[:, :, None]
    # Few pairs are left: go on with those alone.
    i, s, t = np.nonzero(covered)
    for objective in range(_DENSE_OBJECTIVES, k):
        column = rows[:, :, objective]
        left = column[i, t] >= column[i, s]
        i, s, t = i[left], s[left], t[left]
    equal = (rows[i, s] == rows[i, t]).all(axis=1)
    dropped = ~equal | (t < s)
    keep[i[dropped], s[dropped]] = False
    return keep
