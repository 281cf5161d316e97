"""A campaign on bad days: real kills, full disks, two masters; nothing lost, nothing counted twice.

Faults of training are in ``test_faults_of_training.py``; 100 kills in a row are
``python -m tests.evolve.faults``.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from evolve.sandbox.tiers import probe
from evolve.store import Store
from evolve.task_files import digest_of
from tests.evolve.conftest import Command, write_toy_task
from tests.evolve.faults import SETTINGS, contents, kill_often, remount, small_disk
from tests.evolve.workers import alive, children, descendants

EVALUATIONS = 150
RUN = (*SETTINGS, "--evaluations", EVALUATIONS, "--workers", 2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The rows of the campaign that all others are compared with."""
    folder = tmp_path_factory.mktemp("undisturbed")
    Command(pictures=False)("run", write_toy_task(folder), *RUN, "--out", folder / "run")
    return contents(folder / "run")


def same(run, undisturbed):
    # The path of the task is not part of the rows.
    assert contents(run) == undisturbed


def begun(process, run, prompts=1):
    """Wait until a campaign has put some of its prompts on record."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (run / "run.db").is_file() and len(contents(run)["prompts"]) >= prompts:
            return
        time.sleep(0.02)
    process.kill()
    raise AssertionError(process.communicate())


def zygotes(driver):
    """Pids of the Python processes from which candidates are forked."""
    found = []
    for child in children(driver):
        line = [child, *descendants(child)]
        names = [Path(f"/proc/{pid}/comm").read_text() for pid in line if alive(pid)]
        found += [pid for pid, name in zip(line, names, strict=False) if name[:6] == "python"][:1]
    return found


@pytest.mark.slow
def test_killed_at_random_instants_it_ends_as_if_nothing_had_happened(tmp_path):
    campaign = kill_often(tmp_path, write_toy_task(tmp_path), 3, 300, 8, Command(pictures=False))
    assert campaign.same
    assert len(campaign.kills) >= 3
    assert [(kill.lost, kill.twice) for kill in campaign.kills] == [(0, 0)] * len(campaign.kills)


@pytest.mark.slow
def test_killed_workers_and_zygotes_change_nothing(undisturbed, toy_task, plain_command, tmp_path):
    run = tmp_path / "run"
    process = plain_command.start("run", toy_task, *RUN, "--out", run)
    begun(process, run)
    rng, killed = np.random.default_rng(0), 0
    while process.poll() is None and killed < 6:
        # In tier A the worker is bubblewrap and the zygote below it; both are tried.
        targets = zygotes(process.pid) if killed % 2 else children(process.pid)
        if targets:
            try:
                os.kill(int(rng.choice(targets)), signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                continue
        time.sleep(rng.uniform(0.05, 0.4))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert killed >= 2
    same(run, undisturbed)


@pytest.mark.slow
def test_a_stopped_worker_is_given_up(undisturbed, toy_task, plain_command, tmp_path):
    text = (toy_task / "task.py").read_text()
    (toy_task / "task.py").write_text(text.replace("wall_s=5.0", "wall_s=1.0"))
    run = tmp_path / "run"
    process = plain_command.start("run", toy_task, *RUN, "--out", run)
    begun(process, run)
    stopped = zygotes(process.pid)[0]
    os.kill(stopped, signal.SIGSTOP)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert not alive(stopped)
    same(run, undisturbed)


def test_a_full_disk_ends_the_run_in_one_line_and_a_larger_one_resumes_it(
    undisturbed, toy_task, plain_command, tmp_path
):
    with small_disk(tmp_path / "disk", "600k") as disk:
        run = disk / "run"
        refused = plain_command("run", toy_task, *RUN, "--out", run, code=2)
        assert "disk is full" in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert "Traceback" not in refused.stderr
        had = contents(run)
        assert 0 < len(had["evaluations"]) <= EVALUATIONS
        remount(disk, "size=40m")
        plain_command("resume", run)
        assert all(set(had[table]) <= set(undisturbed[table]) for table in had)
        same(run, undisturbed)


def test_a_file_that_may_not_grow_is_a_full_disk(undisturbed, toy_task, plain_command, tmp_path):
    # What a quota does; it needs no right to mount.
    run = tmp_path / "run"
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))\n"
        "from evolve.cli import main\n"
        "main()\n"
    )
    arguments = ["run", str(toy_task), *map(str, RUN), "--out", str(run)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=plain_command.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith(f"error: {run}")
    assert done.stderr.count("\n") == 1
    plain_command("resume", run)
    same(run, undisturbed)


def test_a_read_only_run_can_be_looked_at_and_not_resumed(toy_task, plain_command, tmp_path):
    with small_disk(tmp_path / "disk", "20m") as disk:
        run = disk / "run"
        plain_command("run", toy_task, *RUN, "--out", run)
        shown = plain_command("show", run).stdout
        remount(disk, "ro")
        assert plain_command("show", run).stdout == shown
        assert f"{EVALUATIONS} evaluated" in plain_command("ls", disk).stdout
        refused = plain_command("resume", run, code=2).stderr
        assert "cannot be written: Read-only file system" in refused
        refused = plain_command("run", toy_task, *RUN, "--out", disk / "other", code=2).stderr
        assert "cannot be written: Read-only file system" in refused
        assert "cannot be written" in Command()("plot", run, code=2).stderr


def test_two_campaigns_on_one_folder(undisturbed, toy_task, plain_command, tmp_path):
    run = tmp_path / "run"
    first = plain_command.start("run", toy_task, *RUN, "--out", run)
    begun(first, run)
    # Held in the middle of its rounds, however quick it is.
    first.send_signal(signal.SIGSTOP)
    second = plain_command("resume", run, code=2)
    first.send_signal(signal.SIGCONT)
    assert "another process is running this campaign" in second.stderr
    out, err = first.communicate(timeout=120)
    assert first.returncode == 0, out + err
    same(run, undisturbed)


def test_of_two_that_start_at_once_one_goes_on_and_its_configuration_stands(
    toy_task, plain_command, tmp_path
):
    run = tmp_path / "run"
    both = [
        plain_command.start("run", toy_task, *RUN, "--seed", seed, "--out", run) for seed in (0, 1)
    ]
    results = [(process.communicate(timeout=120), process.returncode) for process in both]
    assert sorted(code for _, code in results) == [0, 2], results
    winner = [code for _, code in results].index(0)
    assert f"seed = {winner}" in (run / "config.toml").read_text()
    assert "Traceback" not in results[1 - winner][0][1]


def test_a_run_of_an_older_toolkit_is_refused_with_the_reason(toy_task, plain_command, tmp_path):
    run = tmp_path / "run"
    plain_command("run", toy_task, *SETTINGS, "--evaluations", 5, "--out", run)
    with Store(run, "write") as store, store.transaction():
        store.set_meta("schema", 0)
    for verb in ("resume", "show", "plot"):
        line = Command()(verb, run, code=2).stderr
        assert "schema 0, this version reads schema 1; an older version" in line
    assert "unreadable: " in plain_command("ls", tmp_path).stdout


JUMPS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static long jump(void) {
    static long calls;
    return (++calls % 2 ? 1 : -1) * 315360000L;
}
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, t);
    if (id == CLOCK_REALTIME) t->tv_sec += jump();
    return result;
}
int gettimeofday(struct timeval *restrict t, void *restrict z) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}
"""


def test_a_clock_that_jumps_by_ten_years_changes_nothing(
    undisturbed, toy_task, plain_command, tmp_path
):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the clock with")
    source, library = tmp_path / "jumps.c", tmp_path / "jumps.so"
    source.write_text(JUMPS)
    built = [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(built, check=True)
    plain_command.environment["LD_PRELOAD"] = str(library)
    code = "import time; a, b = time.time(), time.time(); print(abs(a - b) > 3e8)"
    jumps = subprocess.run(
        [sys.executable, "-c", code], env=plain_command.environment, capture_output=True, text=True
    )
    assert jumps.stdout == "True\n"
    run = tmp_path / "run"
    plain_command("run", toy_task, *RUN, "--set", "budget.wall_s=600", "--out", run)
    same(run, undisturbed)


#: Every program but the starting one is stuck in its first case.
STUCK = """
import time
def run(program, given):
    values = [float(program.solve(x)) for x in given["xs"]]
    if values != [0.0, 1.5, 3.0, 6.0, 9.0]:
        time.sleep(100)
    return values
"""


def test_ctrl_c_twice_ends_at_once_and_the_run_goes_on(
    undisturbed, toy_task, plain_command, tmp_path
):
    runner = (toy_task / "run.py").read_text()
    task = (toy_task / "task.py").read_text()
    (toy_task / "run.py").write_text(STUCK)
    (toy_task / "task.py").write_text(task.replace("wall_s=5.0", "wall_s=120.0"))
    run = tmp_path / "run"
    process = plain_command.start("run", toy_task, *RUN, "--out", run)
    begun(process, run)
    below = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.0)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, err = process.communicate(timeout=60)
    # Far from the 120 seconds that the candidates in flight may take.
    assert time.monotonic() - started < 15
    assert process.returncode == 130, out + err
    assert "ending after the candidates in flight" in out
    assert err == f"interrupted; go on with: evolve resume {run}\n"
    assert not any(map(alive, below))
    (toy_task / "run.py").write_text(runner)
    (toy_task / "task.py").write_text(task)
    # No candidate was judged by the stuck judge, so going on with the mended one is fair.
    with Store(run, "write") as store, store.transaction():
        store.set_meta("task_digest", digest_of(toy_task))
    plain_command("resume", run)
    same(run, undisturbed)


def test_the_tier_is_on_record_and_shown(toy_task, plain_command, tmp_path):
    run = tmp_path / "run"
    out = plain_command("run", toy_task, *SETTINGS, "--evaluations", 5, "--out", run).stdout
    tier = next(tier for tier in "AB" if probe(tier).works)
    assert f"isolation: candidates run at tier {tier}: they " in out
    assert f"tier {tier}" in plain_command("ls", tmp_path).stdout
    assert f"tier {tier}" in plain_command("show", run).stdout.splitlines()[0]
    with Store(run, "write") as store:
        assert store.meta("tier") == tier
        with store.transaction():
            store.set_meta("tier", "D")
    # As if the run had come from a machine without isolation.
    plain_command("resume", run)
    with Store(run) as store:
        assert [e[1:] for e in store.events()] == [
            ("isolation", f"tier {tier} from here on, before: D")
        ]
