"""What becomes of programs in the sandbox: statuses, details, limits, the life of workers."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from evolve.errors import SandboxError, TaskError
from evolve.sandbox import Pool, Status
from evolve.sandbox.session import MAX_SOURCE_BYTES
from evolve.sandbox.tiers import probe
from evolve.task import Limits
from tests.evolve.workers import alive, descendants, zygote

RUNNER = "def run(program, given):\n    return program.f(given)\n"
# The wall is far off where the CPU limit is meant to strike, also on a busy machine.
LIMITS = Limits(wall_s=10.0, cpu_s=0.5, memory_mb=1024, output_kb=64)


@pytest.fixture(scope="module")
def pool():
    with Pool(RUNNER, ("numpy",), LIMITS, workers=1) as pool:
        yield pool


def ask(pool, source, *inputs):
    with pool.session(source) as session:
        return [session.call(given) for given in inputs or (3,)]


def wait_until_gone(pids):
    deadline = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(alive, pids))


def function(*lines):
    return "\n ".join(["def f(x):", *lines])


def test_inputs_are_answered_one_by_one(pool):
    source = "import numpy as np\nseen = []\n" + function(
        "seen.append(x)", "return {'sum': np.sum(x), 'n': len(seen)}"
    )
    replies = ask(pool, source, np.arange(4), [1.5, 2], (1, 2, 3))
    assert [reply.output for reply in replies] == [
        {"sum": 6, "n": 1},
        {"sum": 3.5, "n": 2},
        {"sum": 6, "n": 3},
    ]
    assert all(reply.status == Status.OK and reply.detail == "" for reply in replies)


def test_inputs_and_answers_larger_than_a_socket_pass():
    limits = Limits(wall_s=20, cpu_s=20, output_kb=20_000)
    with Pool(RUNNER, ("numpy",), limits, workers=1) as pool:
        (reply,) = ask(pool, function("return x * 2"), np.arange(10**6))
    np.testing.assert_array_equal(reply.output, np.arange(10**6) * 2)


@pytest.mark.parametrize(
    ("source", "status", "detail"),
    [
        (function("return x / 0"), Status.EXCEPTION, "line 2: ZeroDivisionError: division by zero"),
        ("x = 1\nraise ValueError('no')", Status.EXCEPTION, "line 2: ValueError: no"),
        ("g = 1", Status.EXCEPTION, "run.py line 2: AttributeError: module 'candidate' has no"),
        (function("return [", " x"), Status.SYNTAX_ERROR, "line 2: SyntaxError: '[' was never"),
        ("a = '\0'", Status.SYNTAX_ERROR, "null bytes"),
        ("a = '\ud800'", Status.SYNTAX_ERROR, ""),
        ("x = 1\n" * MAX_SOURCE_BYTES, Status.SYNTAX_ERROR, "at most 65536"),
        ("-" * 60_000 + "1", Status.SYNTAX_ERROR, ""),
        (function("while True: pass"), Status.TIMEOUT_CPU, "CPU seconds"),
        ("while True: pass", Status.TIMEOUT_CPU, "CPU seconds"),
        (function("return sum(range(10**12))"), Status.TIMEOUT_CPU, "CPU seconds"),
        (function("return len(bytearray(6 << 30))"), Status.MEMORY, "line 2: MemoryError"),
        (function("import ctypes; ctypes.string_at(0)"), Status.CRASHED, "11 (SIGSEGV)"),
        (function("import os; os._exit(0)"), Status.EXITED_EARLY, "exited with code 0 before"),
        (function("import sys; sys.exit(0)"), Status.EXITED_EARLY, "line 2: SystemExit: 0"),
        (function("raise KeyboardInterrupt"), Status.EXCEPTION, "line 2: KeyboardInterrupt"),
        (function("return 'x' * 70_000"), Status.OUTPUT_LIMIT, "the answer takes 70002 bytes"),
        (function("print('x' * (16 << 20))"), Status.OUTPUT_LIMIT, "it printed"),
        (function("return float('nan')"), Status.INVALID_OUTPUT, "nan is not a finite number"),
        (function("return {1, 2}"), Status.INVALID_OUTPUT, "set is not plain data"),
        (function("return f"), Status.INVALID_OUTPUT, "function is not plain data"),
    ],
)
def test_each_failure_has_its_status_and_says_why(pool, source, status, detail):
    (reply,) = ask(pool, source)
    assert (reply.status, reply.output) == (status, None)
    assert detail in reply.detail
    assert len(reply.detail) <= 500
    assert "\n" not in reply.detail
    # The worker is none the worse for it.
    assert ask(pool, function("return x + 1"))[0].output == 4


def test_sleep_ends_at_the_wall():
    with Pool(RUNNER, (), Limits(wall_s=0.3), workers=1) as pool:
        started = time.monotonic()
        (reply,) = ask(pool, function("import time; time.sleep(60)"))
        assert (reply.status, reply.detail) == (Status.TIMEOUT_WALL, "no answer within 0.3 s")
        assert 0.3 <= reply.wall_s < time.monotonic() - started < 10
        assert ask(pool, function("return x"))[0].output == 3


def test_an_exception_spoils_one_answer_only(pool):
    replies = ask(pool, function("return 6 // x"), 3, 0, 2)
    assert [reply.status for reply in replies] == [Status.OK, Status.EXCEPTION, Status.OK]
    assert [reply.output for reply in replies] == [2, None, 3]


def test_a_dead_program_gives_its_reason_again(pool):
    replies = ask(pool, function("import os; os._exit(x)"), 7, 8)
    assert [reply.status for reply in replies] == [Status.EXITED_EARLY] * 2
    assert "code 7" in replies[1].detail


def test_use_is_measured(pool):
    with pool.session(
        function("import time", "t = time.process_time()", "b = bytearray(200 << 20)")
        + "\n while time.process_time() < t + 0.2: pass\n print('said')\n return len(b)"
    ) as session:
        reply = session.call(0)
        usage = session.close()
    assert reply.output == 200 << 20
    assert 0.2 <= usage.cpu_s < 0.5
    assert reply.wall_s >= 0.2
    assert usage.max_rss_kb >= 200 << 10
    assert usage.stderr_tail == "said\n"
    assert usage.worker == 0


def test_what_is_printed_is_cut_and_cleaned(pool):
    with pool.session(function("print('\\x1b[2J' + 'y' * 300_000 + 'end\\u202e')")) as session:
        assert session.call(0).status == Status.OK
        usage = session.close()
    assert len(usage.stderr_tail) <= 4096
    assert usage.stderr_tail.endswith("yend?\n")


def test_messages_cannot_move_the_cursor_or_flood(pool):
    (reply,) = ask(pool, function("raise ValueError('\\x1b[31m\\u202e' + 'long ' * 10**6)"))
    assert reply.status == Status.EXCEPTION
    assert reply.detail.startswith("line 2: ValueError: ?long long")
    assert len(reply.detail) <= 500


def test_nothing_passes_from_one_program_to_the_next(pool):
    spoil = "import sys, numpy\nnumpy.sum = sys.modules['json'] = lambda *_: 'spoilt'\n"
    assert ask(pool, spoil + function("return numpy.sum(x)"))[0].output == "spoilt"
    clean = "import json, numpy\n" + function("return json.dumps(int(numpy.sum(x)))")
    assert ask(pool, clean, [1, 2])[0].output == "3"


def test_global_generators_start_alike_in_every_worker():
    source = "import random, numpy as np\n" + function(
        "return [random.random(), np.random.rand(), hash('a'), list({'p', 'q', 'r'})]"
    )
    outputs = []
    for _ in range(2):
        with Pool(RUNNER, ("numpy",), LIMITS, workers=1) as pool:
            outputs += [ask(pool, source)[0].output for _ in range(2)]
    assert outputs[0] == outputs[1] == outputs[2] == outputs[3]


def test_threads_share_the_workers():
    with Pool(RUNNER, (), LIMITS, workers=2) as pool:
        sums, seen = [], set()

        def drive(start):
            for i in range(start, start + 20):
                with pool.session(function(f"return x + {i}")) as session:
                    sums.append(session.call(1).output - i)
                    seen.add(session.close().worker)

        threads = [threading.Thread(target=drive, args=(100 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sums == [1] * 80
    assert seen == {0, 1}


def test_the_environment_of_the_parent_stays_outside(monkeypatch):
    monkeypatch.setenv("SECRET_API_KEY", "planted-key")
    with Pool(RUNNER, (), LIMITS, workers=1) as pool:
        (reply,) = ask(pool, "import os, sys\n" + function("return [dict(os.environ), sys.argv]"))
    assert "planted-key" not in str(reply.output)
    assert "SECRET_API_KEY" not in str(reply.output)


def test_a_killed_worker_is_replaced():
    with Pool(RUNNER, (), LIMITS, workers=1) as pool:
        with pool.session(function("return x")) as session:
            assert session.call(1).output == 1
            first = zygote(session._worker)
            below = descendants(first)
            os.kill(first, signal.SIGKILL)
            # The candidate goes with it, but has an instant to answer in.
            wait_until_gone(below)
            reply = session.call(2)
        assert reply.status == Status.SANDBOX_ERROR
        assert not alive(first)
        with pool.session(function("return x")) as session:
            assert session.call(3).output == 3
            assert zygote(session._worker) != first


def test_a_worker_killed_while_idle_is_replaced():
    with Pool(RUNNER, (), LIMITS, workers=1) as pool:
        with pool.session("") as session:
            process = session._worker.process
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert ask(pool, function("return x"))[0].output == 3


@pytest.mark.skipif(not probe("A").works, reason="no machine for candidates that write files")
@pytest.mark.parametrize(
    "leave",
    [
        "os.makedirs('a/b'); open('a/b/c', 'w').write('x'); os.chmod('a/b', 0); os.chmod('a', 0)",
        "for _ in range(3000): os.mkdir('d'); os.chdir('d')",
        "os.symlink('/', 'everything'); open('file', 'w').write('x')",
    ],
)
def test_what_a_program_leaves_in_its_folder_meets_nobody_and_stops_nothing(leave):
    limits = Limits(wall_s=10.0, cpu_s=5.0, memory_mb=512, scratch_mb=4, processes=2)
    source = function("import os", "os.chdir('/scratch')", leave, "return 'left'")
    look = function("import os", "return sorted(os.listdir('/scratch'))")
    with Pool(RUNNER, (), limits, workers=1) as pool:
        for _ in range(4):
            assert ask(pool, source)[0].output == "left"
            reply = ask(pool, look)[0]
            if reply.status == Status.SANDBOX_ERROR:
                # It met the worker just before that gave up; campaigns try once more.
                reply = ask(pool, look)[0]
            assert reply.output == []


def test_a_worker_killed_while_it_starts_is_replaced(monkeypatch):
    with Pool(RUNNER, (), LIMITS, workers=1) as pool:
        with pool.session("") as session:
            os.kill(zygote(session._worker), signal.SIGKILL)
        killed, spawn = [], pool._spawn

        def spawn_and_kill(index):
            worker = spawn(index)
            if len(killed) < 2:
                killed.append(worker.process.pid)
                for pid in [*descendants(worker.process.pid), worker.process.pid]:
                    os.kill(pid, signal.SIGKILL)
            return worker

        monkeypatch.setattr(pool, "_spawn", spawn_and_kill)
        assert ask(pool, function("return x"))[0].output == 3
        # A process forked just then by the one that is killed may come up all the same.
        assert 1 <= len(killed) <= 2
        assert not any(map(alive, killed))


def test_a_pool_that_is_aborted_lets_nobody_wait():
    with Pool(RUNNER, (), Limits(wall_s=60.0, cpu_s=60.0), workers=1) as pool:
        ends = []

        def hang():
            with pool.session(function("while True: pass")) as session:
                ends.append(session.call(1).status)

        def wait():
            try:
                pool.session(function("return x"))
            except SandboxError as error:
                ends.append(str(error))

        threads = [threading.Thread(target=hang), threading.Thread(target=wait)]
        for thread in threads:
            thread.start()
            time.sleep(0.3)
        pool.abort()
        for thread in threads:
            thread.join(10.0)
            assert not thread.is_alive()
        assert sorted(ends) == [Status.SANDBOX_ERROR, "the run was interrupted"]


def test_a_stopped_worker_is_given_up_and_replaced(monkeypatch):
    monkeypatch.setattr("evolve.sandbox.session.REPORT_S", 0.3)
    with Pool(RUNNER, (), Limits(wall_s=0.3), workers=1) as pool:
        with pool.session(function("import time; time.sleep(60)")) as session:
            assert session.load() is None
            os.kill(zygote(session._worker), signal.SIGSTOP)
            assert session.call(1).status == Status.SANDBOX_ERROR
        assert ask(pool, function("return x"))[0].output == 3


def test_workers_that_keep_dying_stop_the_run():
    with (
        Pool(RUNNER, (), LIMITS, workers=1) as pool,
        pytest.raises(SandboxError, match="died .* times in a row"),
    ):
        for _ in range(20):
            with pool.session(function("return x")) as session:
                os.kill(zygote(session._worker), signal.SIGKILL)
                session.call(1)


def test_closing_a_pool_leaves_no_process_and_no_descriptor():
    before, others = len(list(Path("/proc/self/fd").iterdir())), descendants(os.getpid())
    with (
        Pool(RUNNER, (), LIMITS, workers=2) as pool,
        pool.session(function("return x")) as one,
        pool.session("while True: pass"),
    ):
        assert one.call(1).output == 1
        pids = set(descendants(os.getpid())) - set(others)
        assert len(pids) >= 4
    assert not any(map(alive, pids))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("runner", "preload", "message"),
    [
        (RUNNER, ("numpy", "no_such_module"), "No module named 'no_such_module'"),
        ("def run(program, given)", (), "SyntaxError"),
        ("import no_such_module", (), "run.py line 1: ModuleNotFoundError"),
        ("x = 1", (), "KeyError: 'run'"),
    ],
)
def test_a_broken_task_is_told_at_the_start(runner, preload, message):
    with pytest.raises(TaskError, match=message):
        Pool(runner, preload, LIMITS, workers=1)


def test_an_input_that_is_no_plain_data_is_the_task_s_fault(pool):
    with (
        pool.session(function("return x")) as session,
        pytest.raises(TaskError, match="set is not plain data"),
    ):
        session.call({1, 2})


def test_the_time_to_load_does_not_count_as_a_case(pool):
    started = time.monotonic()
    source = "import time\ntime.sleep(1.5)\n" + function("return x")
    assert ask(pool, source)[0].status == Status.OK
    assert time.monotonic() - started >= 1.5


def test_workers_die_with_a_campaign_that_is_killed(tmp_path):
    script = tmp_path / "campaign.py"
    script.write_text(
        "import sys, time\n"
        "from evolve.sandbox import Pool\n"
        "pool = Pool('def run(program, given): return program.f(given)', (), workers=2)\n"
        "session = pool.session('def f(x):\\n while True: pass')\n"
        "session.load()\n"
        "print('running', flush=True)\n"
        "session.call(1)\n"
    )
    campaign = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert campaign.stdout.readline() == "running\n"
    pids = descendants(campaign.pid)
    assert len(pids) >= 3
    campaign.kill()
    campaign.communicate()
    wait_until_gone(pids)
