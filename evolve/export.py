"""A run in files that other tools read: JSON lines of programs and training groups, npz arrays.

``programs.jsonl``
    a line for every answer, whatever became of it, see :func:`program_rows`;
``trl.jsonl``, ``verl.jsonl``
    the training groups, see :mod:`evolve.learning.groups`; a policy without tokens has none;
``responses.jsonl``
    of a run with a model server, its answers; ``evolve run --replay`` takes it;
``groups.jsonl``
    of such a run, its training groups without token ids, see
    :func:`evolve.server.record.group_rows`;
``archive.npz``
    the archive as pyribs takes it, see :func:`archive_arrays`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evolve.errors import StoreError
from evolve.history import History, read_history
from evolve.records import AddRecord, EvaluationRecord
from evolve.store import Store
from evolve.tessellation import Grid

Rows = Iterator[Mapping[str, Any]]


def export_run(folder: Path, out: Path, tell: Callable[[str], None]) -> list[Path]:
    """Write a run, which may be running, into files and return them.

    Args:
        folder: The run folder.
        out: Where to; made if need be, and files of the same name are replaced.
        tell: Is told of every file when it is there: its path and what it holds.

    Raises:
        StoreError: If the folder holds no run, or the files cannot be written.
    """
    history = read_history(folder)
    files = []

    def done(path: Path, holds: str) -> None:
        files.append(path)
        tell(f"{path}: {holds}")

    try:
        out.mkdir(parents=True, exist_ok=True)
        with Store(folder) as store:
            tables = {"programs": program_rows(store, history)}
            if any(prompt.tokens for prompt in store.prompts(0, 0)):
                # Here and not above: the bridge to the learning library loads torch.
                from evolve.learning.groups import trl_rows, verl_rows

                tables["trl"] = trl_rows(store, history.config)
                tables["verl"] = verl_rows(store, history.config)
            elif store.usage(1).responses:
                from evolve.server.record import group_rows, response_rows

                tables["responses"] = response_rows(store)
                tables["groups"] = group_rows(store, history.config)
                tell("no token ids: a server gives texts and log-probabilities of tokens alone")
            else:
                tell(f"no training groups: policy {history.config.policy.name} has no tokens")
            for name, rows in tables.items():
                path = out / f"{name}.jsonl"
                done(path, f"{_write_lines(path, rows)} lines")
        arrays = archive_arrays(history)
        path = out / "archive.npz"
        with _fresh(path).open("wb") as handle:
            np.savez_compressed(handle, **arrays)
        _fresh(path).replace(path)
        done(path, f"{len(arrays['index'])} occupied cells")
    except OSError as error:
        raise StoreError(f"{out}: cannot be written: {error.strerror}") from None
    return files


def program_rows(store: Store, history: History) -> Rows:
    """Yield a row for every candidate in the order of ids, the starting program first.

    ``fate`` says whether an answer was evaluated or why not, ``status`` the verdict. ``rewards``
    (in [0, 1]), ``raw`` (in the unit of the objective) and ``descriptors`` are by name; the first
    and the last are null unless the program is valid, and ``raw`` may hold a part. ``archive``
    lists what each island did with it. Times are in seconds, memory in KiB.
    """
    names = [objective.name for objective in history.task.objectives]
    axes = [descriptor.name for descriptor in history.task.descriptors]
    places = store.rollout_places()
    adds: dict[int, list[AddRecord]] = {}
    for add in history.adds:
        adds.setdefault(add.candidate, []).append(add)
    verdicts = {verdict.candidate: verdict for verdict in store.evaluations()}
    for candidate in store.candidates():
        verdict = verdicts.get(candidate.id)
        round_, island = (None, None)
        if candidate.rollout is not None:
            round_, island = places[candidate.rollout]
        yield {
            "id": candidate.id,
            "parent": candidate.parent,
            "round": round_,
            "island": island,
            "rollout": candidate.rollout,
            "answer": candidate.answer,
            "operator": candidate.operator,
            "fate": candidate.fate,
            "detail": candidate.detail,
            "twin": candidate.twin,
            "fingerprint": candidate.fingerprint,
            **_judged(verdict, names, axes),
            "archive": [
                {"island": add.island, "cell": add.cell, "status": add.status, "value": add.value}
                for add in adds.get(candidate.id, [])
            ],
            "source": candidate.source,
        }


def archive_arrays(history: History) -> dict[str, Any]:
    """Return the best program of every occupied cell, by mean reward, over all islands.

    ``GridArchive(solution_dim=(), dims=dims, ranges=zip(lows, highs), solution_dtype=int)``, or
    ``CVTArchive`` with ``centroids``, takes ``solution``, ``objective`` and ``measures`` as they
    are; n is the number of occupied cells, d that of descriptors, k that of objectives.

    - ``solution``: (n,) ids of programs, ``objective``: (n,) their mean rewards;
    - ``measures``: (n, d) descriptors, in their units; ``index``: (n,) the cells, ascending;
    - ``rewards``: (n, k) reward vectors;
    - ``lows``, ``highs``: (d,) bounds; ``dims``: (d,) bins of a grid, or ``centroids``: (cells, d);
    - ``measure_names`` (d,), ``objective_names`` (k,).
    """
    best: dict[int, tuple[float, int, int]] = {}
    programs = history.state.programs
    for archive in history.state.islands:
        for cell, scores in zip(archive.occupied().tolist(), archive.scores(), strict=True):
            id_ = int(archive.champions(cell)[-1])
            # The last weight of the bank is the uniform one; ties as within an archive.
            key = (-float(scores[-1]), len(programs[id_].source), id_)
            best[cell] = min(best.get(cell, key), key)
    cells = history.state.islands[0].cells
    rows = [(cell, *best[cell]) for cell in sorted(best)]
    elites = [programs[id_] for _, _, _, id_ in rows]
    shape = {"dims": np.array(cells.bins)} if isinstance(cells, Grid) else {}
    if not isinstance(cells, Grid):
        shape["centroids"] = cells.centroids
    return {
        "solution": np.array([elite.id for elite in elites], dtype=np.int64),
        "objective": np.array([-score for _, score, _, _ in rows]),
        "measures": np.array([elite.descriptors for elite in elites]),
        "index": np.array([cell for cell, _, _, _ in rows], dtype=np.int64),
        "rewards": np.array([elite.rewards for elite in elites]),
        "lows": cells.lows,
        "highs": cells.highs,
        **shape,
        "measure_names": np.array([axis.name for axis in history.task.descriptors]),
        "objective_names": np.array([o.name for o in history.task.objectives]),
    }


def _judged(verdict: EvaluationRecord | None, names: list[str], axes: list[str]) -> dict[str, Any]:
    if verdict is None:
        keys = ("status", "stage", "mean", "rewards", "raw", "descriptors", "feedback")
        return dict.fromkeys((*keys, "wall_s", "cpu_s", "max_rss_kb"))
    rewards, place = verdict.rewards, verdict.descriptors
    return {
        "status": verdict.status,
        "stage": verdict.stage,
        "mean": None if rewards is None else sum(rewards) / len(rewards),
        "rewards": None if rewards is None else dict(zip(names, rewards, strict=True)),
        "raw": dict(verdict.raw),
        "descriptors": None if place is None else dict(zip(axes, place, strict=True)),
        "feedback": verdict.feedback,
        "wall_s": verdict.wall_s,
        "cpu_s": verdict.cpu_s,
        "max_rss_kb": verdict.max_rss_kb,
    }


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as JSON lines, in ASCII; a reader never finds half a file."""
    count = 0
    with _fresh(path).open("w", encoding="ascii") as handle:
        for row in rows:
            handle.write(json.dumps(row))
            handle.write("\n")
            count += 1
    _fresh(path).replace(path)
    return count


def _fresh(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")
