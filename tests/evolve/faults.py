"""Kills campaigns at random instants and compares what they become with an undisturbed run.

``python -m tests.evolve.faults SECURITY.md [INSTANTS]`` kills 100 times and writes the table of
that page; the test suite does the same with few instants.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evolve.schema import open_to_read
from tests.evolve.conftest import Command, write_toy_task

BEGIN, END = "<!-- kills: begin -->", "<!-- kills: end -->"
SETTINGS = ("--set", "search.prompts=6", "--set", "search.rollouts=2", "--policy", "mutate")

#: Columns that differ between two runs of the same campaign: they are measured, not decided.
MEASURED = {
    "evaluations": {"wall_s", "cpu_s", "max_rss_kb"},
    "rounds": {"elapsed_s", "metrics"},
}
TABLES = ("prompts", "rollouts", "candidates", "evaluations", "adds", "rounds", "versions")


def contents(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of a run that a repetition of it must have too, by table."""
    if not (folder / "run.db").is_file():
        return {table: [] for table in TABLES}
    found = {}
    with closing(open_to_read(folder / "run.db")) as db:
        for table in TABLES:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            kept = [name for name in columns if name not in MEASURED.get(table, ())]
            rows = db.execute(f"SELECT {', '.join(kept)} FROM {table} ORDER BY rowid").fetchall()
            found[table] = rows
        # The columns of a round that count how it went are decided too.
        found["rounds"] = db.execute(
            "SELECT round, version, json_extract(metrics, '$.evaluations'), "
            "json_extract(metrics, '$.qd_score'), json_extract(metrics, '$.vector_qd_score') "
            "FROM rounds ORDER BY round"
        ).fetchall()
    return found


@dataclass(frozen=True)
class Kill:
    """What a run folder held after a kill.

    Attributes:
        when: The phase that was hit, in words.
        lost: Rows that were there before this session and are gone.
        twice: Candidates or offers to the archive that are there twice.
    """

    when: str
    lost: int
    twice: int


@dataclass(frozen=True)
class Campaign:
    """A killed campaign, once it has come to its end; ``same`` as the undisturbed one."""

    kills: tuple[Kill, ...]
    same: bool


def kill_often(
    folder: Path,
    task: Path,
    seed: int,
    evaluations: int,
    instants: int,
    command: Command,
    settings: tuple[str, ...] = SETTINGS,
) -> Campaign:
    """Run a campaign, kill its driver up to ``instants`` times, let it end, compare.

    Most instants are counted from the first row that a process writes, the others from its launch.
    """
    arguments = (*settings, "--evaluations", evaluations, "--seed", seed, "--workers", 2)
    undisturbed = folder / "undisturbed"
    command("run", task, *arguments, "--out", undisturbed)
    run = folder / "killed"
    rng = np.random.default_rng(seed)
    kills: list[Kill] = []
    before = contents(run)
    while True:
        begun = (run / "run.db").is_file()
        process = command.start(
            *(("resume", run) if begun else ("run", task, *arguments, "--out", run))
        )
        if len(kills) == instants:
            out, err = process.communicate(timeout=300)
            assert process.returncode == 0, out + err
            break
        ended = _wait(process, run, rng)
        process.kill()
        process.communicate()
        if ended:
            assert process.returncode == 0
            break
        after = contents(run)
        kills.append(_look(run, before, after, evaluations))
        before = after
        if len(after["evaluations"]) > evaluations:
            # Nothing is left to lose: enough kills hit the pictures at the end.
            instants = len(kills)
    return Campaign(tuple(kills), contents(run) == contents(undisturbed))


def _wait(process: "subprocess.Popen[str]", run: Path, rng: np.random.Generator) -> bool:
    """Wait for a random instant; return whether the process came to its end before."""
    if rng.random() < 0.3:
        delay = rng.uniform(0.0, 2.0)
    else:
        journal = run / "run.db-wal"
        before = journal.stat().st_mtime_ns if journal.exists() else 0
        while process.poll() is None:
            if journal.exists() and journal.stat().st_mtime_ns != before:
                break
            time.sleep(0.005)
        delay = rng.uniform(0.0, 1.0)
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        return False
    return True


def _look(run: Path, before: dict[str, Any], after: dict[str, Any], evaluations: int) -> Kill:
    lost = sum(len(set(before[table]) - set(after[table])) for table in TABLES)
    ids = [row[0] for row in after["candidates"]], [row[0] for row in after["evaluations"]]
    offers = [row[:3] for row in after["adds"]]
    twice = sum(len(rows) - len(set(rows)) for rows in (*ids, offers))
    return Kill(_phase(run, before, after, evaluations), lost, twice)


def _phase(run: Path, before: dict[str, Any], after: dict[str, Any], evaluations: int) -> str:
    if not (run / "run.db").is_file():
        return "before the run was on disk"
    if len(after["evaluations"]) > evaluations:
        return "after the last verdict"
    if after == before:
        return "while starting or resuming"
    fate = 5
    waiting = {row[0] for row in after["candidates"] if row[fate] == "evaluate"}
    if waiting - {row[0] for row in after["evaluations"]}:
        return "in a round, candidates proposed and not judged"
    closed = {row[0] for row in after["rounds"]}
    if {row[1] for row in after["prompts"]} - closed:
        return "in a round, every candidate judged"
    return "between two rounds"


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of ``size`` in ``folder``, or a skip where none can be made."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder: Path, option: str) -> None:
    """Change the size of a small disk, or make it read-only."""
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


def kill_many(instants: int, evaluations: int = 800) -> list[Campaign]:
    """Kill campaigns until there have been so many kills."""
    campaigns: list[Campaign] = []
    while (left := instants - sum(len(c.kills) for c in campaigns)) > 0:
        with tempfile.TemporaryDirectory(prefix="evolve-faults-") as folder:
            task = write_toy_task(Path(folder))
            seed = len(campaigns)
            campaigns.append(kill_often(Path(folder), task, seed, evaluations, left, Command()))
    return campaigns


def table(campaigns: list[Campaign]) -> Iterator[str]:
    """The outcome as a table in Markdown."""
    kills = [kill for campaign in campaigns for kill in campaign.kills]
    yield "| killed | times | rows lost | counted twice |"
    yield "| --- | --- | --- | --- |"
    for when, times in sorted(Counter(kill.when for kill in kills).items()):
        hit = [kill for kill in kills if kill.when == when]
        yield f"| {when} | {times} | {sum(k.lost for k in hit)} | {sum(k.twice for k in hit)} |"
    same = sum(campaign.same for campaign in campaigns)
    lost, twice = sum(k.lost for k in kills), sum(k.twice for k in kills)
    yield f"| in all | {len(kills)} | {lost} | {twice} |"
    yield ""
    yield (
        f"{len(campaigns)} campaigns, killed {len(kills)} times in all; {same} of them ended with "
        "the rows of an undisturbed one: prompts, answers, verdicts, decisions of the archive."
    )


def main(path: Path, instants: int) -> None:
    """Write the table between the marks in a file."""
    started = time.monotonic()
    lines = "\n".join(table(kill_many(instants)))
    text = path.read_text()
    before, rest = text.split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{lines}\n{END}{rest.split(END)[1]}")
    print(f"{lines}\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 100)
