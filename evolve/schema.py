"""The file behind a run: its tables, opening it where nothing can be written, who may write.

What the tables mean is the business of :mod:`evolve.store`.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import TextIO

from evolve.errors import StoreError

SCHEMA = 1

# The columns of a table are the fields of its record, in order; tuples and mappings are JSON.
TABLES = """
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

# Of runs with a server alone. A database without it is of the same schema, and gets it when it is
# written to.
RESPONSES = """
CREATE TABLE IF NOT EXISTS responses (
    round INTEGER NOT NULL, slot INTEGER NOT NULL, first INTEGER NOT NULL, request TEXT NOT NULL,
    body TEXT NOT NULL, prompt_tokens INTEGER, completion_tokens INTEGER, cost REAL NOT NULL,
    PRIMARY KEY (round, slot, first, request))
"""


def create_database(path: Path) -> None:
    """Make a database with empty tables; a crash leaves all of it or no file of that name.

    Raises:
        sqlite3.Error: If it cannot be written.
    """
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    db = sqlite3.connect(draft, isolation_level=None)
    try:
        db.execute("BEGIN")
        for statement in TABLES.split(";"):
            db.execute(statement)
        db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA),))
        db.execute("COMMIT")
    finally:
        db.close()
    draft.replace(path)


def open_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that writes nothing, also where the folder cannot be written.

    Raises:
        sqlite3.Error: If it is no database, or cannot be opened.
    """
    address = f"{path.resolve().as_uri()}?mode=ro"
    db = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        db.execute("SELECT 1 FROM meta").fetchone()
    except sqlite3.OperationalError:
        # In a folder that cannot be written there is no place for the index of the journal. Without
        # a journal, and with nobody who could begin one, the file is all there is.
        db.close()
        if os.access(path.parent, os.W_OK) or path.with_name(f"{path.name}-wal").exists():
            raise
        db = sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
    return db


def lock_folder(folder: Path) -> TextIO:
    """Make a run folder if need be and return the lock that lets one process write there.

    Raises:
        StoreError: If another process has it, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("w")
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        raise StoreError(f"{folder}: another process is running this campaign") from None
    return handle
