"""What a run has seen, in one SQLite file: the only state that a resume needs.

The archive, the set of known programs and the training batches are pure functions of these tables,
so nothing else is saved. One process writes; any number may read while it does.
"""

from __future__ import annotations

import fcntl
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
    RolloutRecord,
    VersionRecord,
)

SCHEMA = 1

# The columns of a table are the fields of its record, in order; tuples and mappings are JSON.
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE prompts (
    id INTEGER PRIMARY KEY, round INTEGER NOT NULL, slot INTEGER NOT NULL,
    island INTEGER NOT NULL, cell INTEGER NOT NULL, parent INTEGER NOT NULL,
    inspirations TEXT NOT NULL, arm TEXT NOT NULL, probability REAL NOT NULL,
    weights TEXT NOT NULL, text TEXT NOT NULL, tokens TEXT NOT NULL,
    UNIQUE (round, slot));
CREATE TABLE rollouts (
    id INTEGER PRIMARY KEY, prompt INTEGER NOT NULL REFERENCES prompts, repeat INTEGER NOT NULL,
    version INTEGER NOT NULL, completion TEXT NOT NULL, tokens TEXT NOT NULL,
    logprobs TEXT NOT NULL);
CREATE INDEX rollouts_prompt ON rollouts (prompt);
CREATE TABLE candidates (
    id INTEGER PRIMARY KEY, rollout INTEGER REFERENCES rollouts, answer INTEGER NOT NULL,
    tokens TEXT NOT NULL, parent INTEGER, fate TEXT NOT NULL, detail TEXT NOT NULL, twin INTEGER,
    source TEXT, fingerprint TEXT, operator TEXT NOT NULL);
CREATE INDEX candidates_rollout ON candidates (rollout);
CREATE TABLE evaluations (
    candidate INTEGER PRIMARY KEY REFERENCES candidates, status TEXT NOT NULL,
    stage TEXT NOT NULL, rewards TEXT, raw TEXT NOT NULL, descriptors TEXT,
    feedback TEXT NOT NULL, wall_s REAL NOT NULL, cpu_s REAL NOT NULL, max_rss_kb INTEGER NOT NULL);
CREATE TABLE adds (
    round INTEGER NOT NULL, island INTEGER NOT NULL,
    candidate INTEGER NOT NULL REFERENCES candidates, cell INTEGER NOT NULL, status TEXT NOT NULL,
    value REAL NOT NULL);
CREATE TABLE rounds (
    round INTEGER PRIMARY KEY, version INTEGER NOT NULL, elapsed_s REAL NOT NULL,
    metrics TEXT NOT NULL);
CREATE TABLE versions (
    version INTEGER PRIMARY KEY, round INTEGER NOT NULL, parent INTEGER NOT NULL,
    active INTEGER NOT NULL, folder TEXT NOT NULL, stats TEXT NOT NULL);
CREATE TABLE events (
    id INTEGER PRIMARY KEY, round INTEGER NOT NULL, at TEXT NOT NULL DEFAULT (datetime('now')),
    kind TEXT NOT NULL, text TEXT NOT NULL);
"""

Record = TypeVar(
    "Record",
    PromptRecord,
    RolloutRecord,
    Candidate,
    EvaluationRecord,
    AddRecord,
    VersionRecord,
)


class Store:
    """The database of one run.

    Args:
        folder: The run folder; ``run.db`` lies in it.
        mode: ``"create"`` a new database, ``"write"`` to an existing one, or ``"read"`` it.

    Raises:
        StoreError: If the folder holds no run, holds one already, is being written by another
            process, or has a schema that this version does not know.
    """

    def __init__(self, folder: Path, mode: Literal["create", "write", "read"] = "read") -> None:
        self.folder = folder
        self.path = folder / "run.db"
        self._lock: TextIO | None = None
        if mode == "create":
            if self.path.exists():
                raise StoreError(f"{folder}: holds a run already; resume it or name another folder")
        elif not self.path.is_file():
            raise StoreError(f"{folder}: no run.db, so this is not a run folder")
        if mode != "read":
            self._lock = _lock(folder)
        try:
            self._open(mode)
        except StoreError:
            self.close()
            raise
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self.path}: {error}") from error

    def _open(self, mode: str) -> None:
        read_only = "?mode=ro" if mode == "read" else ""
        self._db = sqlite3.connect(
            f"{self.path.resolve().as_uri()}{read_only}", uri=True, isolation_level=None
        )
        if mode != "read":
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
        if mode == "create":
            with self.transaction():
                for statement in _TABLES.split(";"):
                    self._db.execute(statement)
                self.set_meta("schema", SCHEMA)
        found = self.meta("schema")
        if found != SCHEMA:
            raise StoreError(f"{self.path}: schema {found}, this version reads schema {SCHEMA}")

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
    )
}


def _lock(folder: Path) -> TextIO:
    try:
        handle = (folder / "lock").open("w")
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        raise StoreError(f"{folder}: another process is running this campaign") from None
    return handle
