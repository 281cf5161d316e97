"""What a run has seen, in one SQLite file: the only state that a resume needs.

The archive, the set of known programs and the training batches are pure functions of these tables,
so nothing else is saved. One process writes; any number may read while it does.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TextIO, TypeVar

from evolve.errors import StoreError
from evolve.records import (
    AddRecord,
    Candidate,
    EvaluationRecord,
    PromptRecord,
    ResponseRecord,
    RolloutRecord,
    Usage,
    VersionRecord,
)
from evolve.schema import RESPONSES, SCHEMA, create_database, lock_folder, open_to_read

Record = TypeVar(
    "Record",
    PromptRecord,
    RolloutRecord,
    Candidate,
    EvaluationRecord,
    AddRecord,
    VersionRecord,
    ResponseRecord,
)


class Store:
    """The database of one run.

    Args:
        folder: The run folder; ``run.db`` lies in it.
        mode: ``"create"`` a new database, ``"write"`` to an existing one, or ``"read"`` it.
        config: Text of the ``config.toml`` of a new run.

    Raises:
        StoreError: If the folder holds no run, holds one already, is being written by another
            process, or has a schema that this version does not know.
    """

    def __init__(
        self,
        folder: Path,
        mode: Literal["create", "write", "read"] = "read",
        config: str | None = None,
    ) -> None:
        self.folder = folder
        self.path = folder / "run.db"
        self._lock: TextIO | None = None
        if mode == "create":
            self._refuse_another()
        elif not self.path.is_file():
            raise StoreError(f"{folder}: no run.db, so this is not a run folder")
        if mode != "read":
            self._lock = lock_folder(folder)
        try:
            if mode == "create":
                self._prepare(config)
            self._open(mode)
        except StoreError:
            self.close()
            raise
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self.path}: {error}") from error

    def _refuse_another(self) -> None:
        if self.path.exists():
            raise StoreError(
                f"{self.folder}: holds a run already; resume it or name another folder"
            )

    def _prepare(self, config: str | None) -> None:
        # Once more, since another process may have been quicker to the lock.
        self._refuse_another()
        if config is None:
            return
        # The configuration first: a folder with a database can always be resumed.
        try:
            (self.folder / "config.toml").write_text(config, encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{self.folder}: cannot be written: {error.strerror}") from None

    def _open(self, mode: str) -> None:
        if mode == "create":
            create_database(self.path)
        if mode == "read":
            self._db = open_to_read(self.path)
        else:
            self._db = sqlite3.connect(self.path.resolve(), isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
        found = self.meta("schema")
        if found != SCHEMA:
            age = "an older" if isinstance(found, int) and found < SCHEMA else "another"
            raise StoreError(
                f"{self.path}: schema {found}, this version reads schema {SCHEMA}; {age} version "
                "of the toolkit wrote it and can read it"
            )

    def close(self) -> None:
        """Close the database and let another process write."""
        if hasattr(self, "_db"):
            self._db.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything inside together, or nothing.

        Raises:
            StoreError: If the database cannot be written, for example because the disk is full.
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StoreError(f"{self.path}: {error}") from error
            raise

    # -- writing -----------------------------------------------------------------------------

    def set_meta(self, key: str, value: Any) -> None:
        """Store a JSON value under ``key``."""
        self._db.execute(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value, sort_keys=True))
        )

    def add_event(self, round_: int, kind: str, text: str) -> None:
        """Put something on record that a user should know of."""
        self._db.execute(
            "INSERT INTO events (round, kind, text) VALUES (?, ?, ?)", (round_, kind, text)
        )

    def add_prompt(
        self,
        prompt: PromptRecord,
        rollouts: Iterable[RolloutRecord],
        candidates: Iterable[Candidate],
    ) -> None:
        """Store one prompt with its rollouts and their answers."""
        self._insert("prompts", PromptRecord, [prompt])
        self._insert("rollouts", RolloutRecord, rollouts)
        self.add_candidates(candidates)

    def add_candidates(self, candidates: Iterable[Candidate]) -> None:
        """Store candidates, evaluated or not."""
        self._insert("candidates", Candidate, candidates)

    def add_evaluations(self, records: Iterable[EvaluationRecord]) -> None:
        """Store verdicts; a candidate has one at most."""
        self._insert("evaluations", EvaluationRecord, records)

    def add_adds(self, adds: Iterable[AddRecord]) -> None:
        """Store what the archive did with candidates."""
        self._insert("adds", AddRecord, adds)

    def add_response(self, record: ResponseRecord) -> None:
        """Store what a server answered."""
        self._db.execute(RESPONSES)
        self._insert("responses", ResponseRecord, [record])

    def add_version(self, record: VersionRecord) -> None:
        """Store a policy version, accepted or dropped."""
        self._insert("versions", VersionRecord, [record])

    def set_active(self, version: int, active: bool) -> None:
        """Mark a policy version as in use or as rolled back."""
        self._db.execute("UPDATE versions SET active = ? WHERE version = ?", (int(active), version))

    def close_round(
        self, round_: int, version: int, elapsed_s: float, metrics: dict[str, Any]
    ) -> None:
        """Store that every candidate of a round has been judged and offered to the archive."""
        self._db.execute(
            "INSERT INTO rounds VALUES (?, ?, ?, ?)",
            (round_, version, elapsed_s, json.dumps(metrics)),
        )

    def _insert(self, table: str, kind: type[Record], records: Iterable[Record]) -> None:
        names = [field.name for field in fields(kind)]
        marks = ", ".join("?" * len(names))
        columns = attrgetter(*names)
        self._db.executemany(
            f"INSERT INTO {table} VALUES ({marks})",
            ([_encode(value) for value in columns(record)] for record in records),
        )

    # -- reading -----------------------------------------------------------------------------

    def meta(self, key: str) -> Any:
        """Return the value stored under ``key``, None if there is none."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def events(self) -> list[tuple[int, str, str]]:
        """Return ``(round, kind, text)`` of every event, oldest first."""
        return self._db.execute("SELECT round, kind, text FROM events ORDER BY id").fetchall()

    def rounds(self) -> list[dict[str, Any]]:
        """Return the closed rounds in order: round, version, elapsed_s and their metrics."""
        rows = self._db.execute(
            "SELECT round, version, elapsed_s, metrics FROM rounds ORDER BY round"
        )
        return [
            {"round": r, "version": v, "elapsed_s": s, **json.loads(metrics)}
            for r, v, s, metrics in rows
        ]

    def prompts(self, first_round: int, last_round: int) -> list[PromptRecord]:
        """Return the prompts of a range of rounds, both ends included, in order."""
        return list(
            self._read(
                PromptRecord,
                "SELECT * FROM prompts WHERE round BETWEEN ? AND ? ORDER BY id",
                first_round,
                last_round,
            )
        )

    def origin(self, rollout: int) -> tuple[int, int]:
        """Return the round and the policy version of a rollout."""
        row = self._db.execute(
            "SELECT p.round, r.version FROM rollouts r JOIN prompts p ON p.id = r.prompt"
            " WHERE r.id = ?",
            (rollout,),
        ).fetchone()
        return int(row[0]), int(row[1])

    def rollouts(self, first_round: int, last_round: int) -> list[RolloutRecord]:
        """Return the rollouts of a range of rounds, both ends included, in order."""
        return list(
            self._read(
                RolloutRecord,
                "SELECT r.* FROM prompts p JOIN rollouts r ON r.prompt = p.id"
                " WHERE p.round BETWEEN ? AND ? ORDER BY r.id",
                first_round,
                last_round,
            )
        )

    def rollout_places(self) -> dict[int, tuple[int, int]]:
        """Return rollout id -> (round, island)."""
        rows = self._db.execute(
            "SELECT r.id, p.round, p.island FROM rollouts r JOIN prompts p ON p.id = r.prompt"
        )
        return {id_: (round_, island) for id_, round_, island in rows}

    def candidates(self) -> Iterator[Candidate]:
        """Yield every candidate in order."""
        return self._read(Candidate, "SELECT * FROM candidates ORDER BY id")

    def candidates_of_rounds(self, first: int, last: int) -> list[Candidate]:
        """Return the candidates of a range of rounds, both ends included, in order."""
        return list(
            self._read(
                Candidate,
                "SELECT c.* FROM prompts p JOIN rollouts r ON r.prompt = p.id"
                " JOIN candidates c ON c.rollout = r.id"
                " WHERE p.round BETWEEN ? AND ? ORDER BY c.id",
                first,
                last,
            )
        )

    def candidates_of_prompt(self, prompt: int) -> list[Candidate]:
        """Return the candidates of one prompt, in order."""
        return list(
            self._read(
                Candidate,
                "SELECT c.* FROM candidates c JOIN rollouts r ON r.id = c.rollout"
                " WHERE r.prompt = ? ORDER BY c.id",
                prompt,
            )
        )

    def candidate(self, id_: int) -> Candidate:
        """Return one candidate.

        Raises:
            StoreError: If there is none with that id.
        """
        for found in self._read(Candidate, "SELECT * FROM candidates WHERE id = ?", id_):
            return found
        raise StoreError(f"{self.folder}: no program {id_} in this run")

    def evaluations(self) -> Iterator[EvaluationRecord]:
        """Yield every verdict, in the order of candidates."""
        return self._read(EvaluationRecord, "SELECT * FROM evaluations ORDER BY candidate")

    def evaluation(self, candidate: int) -> EvaluationRecord | None:
        """Return the verdict on a candidate, None if there is none."""
        found = self._read(
            EvaluationRecord, "SELECT * FROM evaluations WHERE candidate = ?", candidate
        )
        return next(found, None)

    def evaluations_of_rounds(self, first: int, last: int) -> dict[int, EvaluationRecord]:
        """Return candidate id -> verdict for a range of rounds, both ends included."""
        found = self._read(
            EvaluationRecord,
            "SELECT e.* FROM prompts p JOIN rollouts r ON r.prompt = p.id"
            " JOIN candidates c ON c.rollout = r.id JOIN evaluations e ON e.candidate = c.id"
            " WHERE p.round BETWEEN ? AND ?",
            first,
            last,
        )
        return {record.candidate: record for record in found}

    def adds(self) -> Iterator[AddRecord]:
        """Yield every decision of the archive, in order."""
        return self._read(AddRecord, "SELECT * FROM adds ORDER BY rowid")

    def versions(self) -> list[VersionRecord]:
        """Return every policy version, in order."""
        return list(self._read(VersionRecord, "SELECT * FROM versions ORDER BY version"))

    def responses(self, round_: int | None = None) -> list[ResponseRecord]:
        """Return the answers of a server, of one round or of all, in the order of prompts."""
        if not self._has_responses():
            return []
        query = "SELECT * FROM responses WHERE round BETWEEN ? AND ? ORDER BY round, slot, first"
        first, last = (0, 2**62) if round_ is None else (round_, round_)
        return list(self._read(ResponseRecord, query, first, last))

    def usage(self, rounds: int) -> Usage:
        """Return what the answers in the first ``rounds`` rounds used."""
        if not self._has_responses():
            return Usage(0, 0, 0, 0.0, 0)
        row = self._db.execute(
            "SELECT COUNT(*), COALESCE(SUM(prompt_tokens), 0), COALESCE(SUM(completion_tokens), 0),"
            " COALESCE(SUM(cost), 0.0), COUNT(*) - COUNT(prompt_tokens + completion_tokens)"
            " FROM responses WHERE round < ?",
            (rounds,),
        ).fetchone()
        return Usage(*row)

    def _has_responses(self) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE name = 'responses'"
        return self._db.execute(query).fetchone() is not None

    def last_id(self, table: Literal["prompts", "rollouts", "candidates"]) -> int:
        """Return the largest id of a table, -1 if it is empty."""
        row = self._db.execute(f"SELECT MAX(id) FROM {table}").fetchone()
        return -1 if row[0] is None else int(row[0])

    def _read(self, kind: type[Record], query: str, *values: int) -> Iterator[Record]:
        decoders = _DECODERS[kind]
        for row in self._db.execute(query, values):
            yield kind(*[d(v) if d and v is not None else v for d, v in zip(decoders, row)])  # noqa: B905


def _encode(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (tuple, dict)) else value


def _decoder(annotation: str) -> Callable[[Any], Any] | None:
    if annotation.startswith("tuple"):
        return lambda text: tuple(json.loads(text))
    if annotation.startswith("Mapping"):
        return json.loads
    return bool if annotation == "bool" else None


_DECODERS: dict[type, tuple[Callable[[Any], Any] | None, ...]] = {
    kind: tuple(_decoder(str(field.type)) for field in fields(kind))
    for kind in (
        PromptRecord,
        RolloutRecord,
        Candidate,
        EvaluationRecord,
        AddRecord,
        VersionRecord,
        ResponseRecord,
    )
}
