"""A key in the environment of a campaign is nowhere that a candidate, a file or a log shows."""

import os
import time
from pathlib import Path

import pytest

from evolve.sandbox.tiers import TIERS, probe
from tests.evolve.workers import descendants

KEY = "sk-planted-7f3a9c51d2"
NAMES = ("OPENAI_API_KEY", "EVOLVE_API_KEY", "HF_TOKEN")

#: The task's runner looks for the key as a candidate would, and says what it saw.
SEEK = """
import glob, os, sys
def run(program, given):
    seen = [repr(dict(os.environ)), repr(sys.argv)]
    for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline"):
        try:
            seen.append(repr(open(path, "rb").read()))
        except OSError:
            continue
    if any("planted" in text for text in seen):
        raise RuntimeError("it has the key")
    return [float(program.solve(x)) for x in given["xs"]]
"""


@pytest.mark.slow
def test_a_planted_key_is_nowhere_in_a_run(toy_task, command, tmp_path):
    if not any(probe(tier).works for tier in "AB"):
        pytest.skip("candidates of this machine can read the environment of their user's processes")
    (toy_task / "run.py").write_text(SEEK)
    command.environment.update(dict.fromkeys(NAMES, KEY))
    run = tmp_path / "runs" / "r"
    process = command.start(
        "run", toy_task, "--policy", "mutate", "--set", "search.prompts=6",
        "--set", "search.rollouts=2", "--evaluations", 300, "--out", run,
    )  # fmt: skip
    looked = 0
    try:
        while process.poll() is None:
            for pid in descendants(process.pid):
                looked += look(pid)
            time.sleep(0.05)
    finally:
        process.kill()
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert looked > 20
    assert KEY not in out + err
    for verb in ("show", "ls"):
        done = command(verb, run if verb == "show" else tmp_path)
        assert KEY not in done.stdout + done.stderr
    # A run that fails says why without saying what it was started with.
    (toy_task / "run.py").write_text(
        "import nothing_of_that_name\n\ndef run(program, given): ...\n"
    )
    assert KEY not in command("resume", run, code=2).stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.db", "config.toml"} <= {path.name for path in files}
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def look(pid):
    """Assert that a process below the campaign has no key; return whether it could be seen."""
    texts = []
    for name in ("environ", "cmdline"):
        try:
            texts.append(Path(f"/proc/{pid}/{name}").read_bytes())
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            return False
    if not texts[1]:
        return False
    # Between fork and exec a process still is a copy of the campaign.
    comm = Path(f"/proc/{pid}/comm")
    if KEY.encode() in texts[0] and comm.exists() and comm.read_text().startswith("evolve"):
        return False
    assert KEY.encode() not in b"".join(texts), texts[1]
    return True


@pytest.mark.parametrize("tier", TIERS)
def test_a_worker_starts_with_a_clean_environment(tier, monkeypatch):
    from evolve.sandbox import Pool

    if not probe(tier).works:
        pytest.skip(probe(tier).reason)
    for name in NAMES:
        monkeypatch.setenv(name, KEY)
    with Pool("def run(program, given): return program.f(given)", (), workers=1, tier=tier) as pool:
        for pid in descendants(os.getpid()):
            path = Path(f"/proc/{pid}/environ")
            assert KEY.encode() not in path.read_bytes()
        with pool.session(
            "import os, sys\ndef f(x): return [dict(os.environ), sys.argv]"
        ) as session:
            assert KEY not in repr(session.call(0).output)
