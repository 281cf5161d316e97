"""The store gives back what it was given, and nothing of a transaction that did not end."""

import sqlite3
from contextlib import closing

import pytest

from evolve.errors import StoreError
from evolve.records import (
    AddRecord,
    Candidate,
    EvaluationRecord,
    PromptRecord,
    RolloutRecord,
    VersionRecord,
)
from evolve.store import Store

SEED = Candidate(0, None, 0, (0, 0), None, "evaluate", "", None, "x = 1\n", "ab", "")
CHILD = Candidate(1, 0, 2, (3, 9), 0, "duplicate", "same as 0", 0, None, "ab", "swap")
PROMPT = PromptRecord(0, 4, 1, 2, 17, 0, (5, 6), "lexicase", 0.1, (0.25, 0.75), "ask", (1, 2, 3))
ROLLOUT = RolloutRecord(0, 0, 1, 3, "@1\n2-\n", (7, 8), (-0.1, -1 / 3))
VERDICT = EvaluationRecord(
    0, "ok", "all", (0.1, 1 / 3), {"a": 1.5}, (2.0, -0.0), "fine", 0.5, 0.25, 4096
)
FAILED = EvaluationRecord(1, "exception", "smoke", None, {}, None, "line 3: x", 0.5, 0.25, 4096)


@pytest.fixture
def store(tmp_path):
    (tmp_path / "run").mkdir()
    with Store(tmp_path / "run", "create") as opened:
        with opened.transaction():
            opened.add_candidates([SEED])
            opened.add_prompt(PROMPT, [ROLLOUT], [CHILD])
            opened.add_evaluations([VERDICT, FAILED])
            opened.add_adds([AddRecord(4, 2, 0, 17, "new", 0.5)])
            opened.add_version(VersionRecord(1, 4, 0, True, "adapters/v1", {"kl": 0.1}))
            opened.close_round(4, 3, 1.5, {"coverage": 0.25})
        yield opened


def test_records_come_back_equal(store):
    with Store(store.folder) as reader:
        assert list(reader.candidates()) == [SEED, CHILD]
        assert reader.prompts(4, 4) == [PROMPT]
        assert reader.prompts(5, 9) == []
        assert reader.rollouts(4, 4) == [ROLLOUT]
        assert list(reader.evaluations()) == [VERDICT, FAILED]
        assert reader.evaluations_of_rounds(4, 4) == {1: FAILED}
        assert reader.candidates_of_rounds(4, 4) == reader.candidates_of_prompt(0) == [CHILD]
        assert list(reader.adds()) == [AddRecord(4, 2, 0, 17, "new", 0.5)]
        assert reader.versions() == [VersionRecord(1, 4, 0, True, "adapters/v1", {"kl": 0.1})]
        assert reader.rounds() == [{"round": 4, "version": 3, "elapsed_s": 1.5, "coverage": 0.25}]
        assert (reader.rollout_places(), reader.origin(0)) == ({0: (4, 2)}, (4, 3))
        assert (reader.last_id("candidates"), reader.last_id("prompts")) == (1, 0)


def test_a_transaction_that_fails_leaves_nothing(store):
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.add_event(4, "note", "never seen")
        raise ZeroDivisionError
    assert store.events() == []
    with pytest.raises(StoreError, match="UNIQUE"), store.transaction():
        store.add_event(4, "note", "never seen")
        store.add_candidates([SEED])
    assert store.events() == []


def test_a_rolled_back_version_is_marked(store):
    with store.transaction():
        store.set_active(1, False)
    assert [version.active for version in store.versions()] == [False]


def test_one_process_writes_and_others_read(store):
    with pytest.raises(StoreError, match="another process"):
        Store(store.folder, "write")
    with Store(store.folder) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.set_meta("a", 1)


def test_folders_that_hold_no_run_or_one_already_are_refused(store, tmp_path):
    with pytest.raises(StoreError, match="not a run folder"):
        Store(tmp_path)
    with pytest.raises(StoreError, match="holds a run already"):
        Store(store.folder, "create")
    with pytest.raises(StoreError, match="cannot be written"):
        Store(store.path / "below a file", "create")
    with pytest.raises(StoreError, match="no program 99"):
        store.candidate(99)


def test_another_schema_and_a_broken_file_are_refused_with_the_reason(store, tmp_path):
    with store.transaction():
        store.set_meta("schema", 99)
    store.close()
    with pytest.raises(StoreError, match="schema 99, this version reads schema 1"):
        Store(store.folder)
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE meta SET value = '0' WHERE key = 'schema'")
    for mode in ("read", "write"):
        with pytest.raises(StoreError, match="schema 0, .* an older version of the toolkit wrote"):
            Store(store.folder, mode)
    (tmp_path / "run.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store(tmp_path)
