"""A machine that isolates too little, made from this one by a filter of system calls."""

import re
import subprocess
import sys

import pytest

from evolve.sandbox.syscalls import supported
from evolve.store import Store
from tests.evolve.faults import SETTINGS

pytestmark = pytest.mark.skipif(not supported(), reason="no table of system calls")

#: A machine whose kernel lacks Landlock and whose container forbids mounts, as many do.
WEAKEN = """
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
mount = {"x86_64": 165, "aarch64": 40}[os.uname().machine]
step = lambda code, value, yes=0, no=0: struct.pack("<HBBI", code, yes, no, value)
program = step(0x20, 0)
for number, error in ((444, errno.ENOSYS), (mount, errno.EPERM)):
    program += step(0x15, number, 0, 1) + step(0x06, 0x50000 | error)
program += step(0x06, 0x7FFF0000)
class Filter(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))
filter = Filter(len(program) // 8, program)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(filter), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def weak(command):
    """Run ``evolve`` where neither tier A nor tier B can be had."""

    def call(*arguments, code=0, color=False):
        environment = {**command.environment, **({"FORCE_COLOR": "1"} if color else {})}
        done = subprocess.run(
            [sys.executable, "-c", WEAKEN, str(command.script), *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call


def test_the_default_refuses_and_names_what_mends_it(weak, toy_task, tmp_path):
    done = weak("run", toy_task, *SETTINGS, "--out", tmp_path / "r", code=3)
    assert done.stderr.count("\n") == 1
    for part in (
        "error: this machine does not isolate candidates well enough",
        "tier A: ",
        "tier B: the kernel has no Landlock",
        "apt-get install bubblewrap",
        "kernel from 5.13",
        "--allow-unsafe",
    ):
        assert part in done.stderr
    assert not (tmp_path / "r").exists()
    assert "--allow-unsafe" in weak("check", toy_task, code=3).stderr
    checked = weak("sandbox", "check", code=3)
    assert re.search(r"^tier B: no: the kernel has no Landlock", checked.stdout, re.MULTILINE)
    assert "does not isolate candidates well enough" in checked.stderr


def test_unsafe_is_said_in_red_written_down_and_then_runs(weak, toy_task, tmp_path):
    run = tmp_path / "r"
    arguments = ("run", toy_task, *SETTINGS, "--evaluations", 10, "--allow-unsafe", "--out", run)
    out = weak(*arguments, color=True).stdout
    # The console breaks long lines and colours each part.
    red = " ".join(" ".join(re.findall(r"\x1b\[1;31m(.*?)\x1b\[0m", out, re.DOTALL)).split())
    assert "model-written programs may read, write and connect as you can" in red
    with Store(run) as store:
        tier = store.meta("tier")
        assert len(list(store.evaluations())) == 11
    assert tier in ("C", "D")
    assert f"UNSAFE: candidates run at tier {tier}: they can " in red
    assert f"tier {tier}" in weak("ls", tmp_path).stdout
    # What was accepted once is written into the run: it goes on, as loudly.
    resumed = weak("resume", run, color=True).stdout
    assert re.search(rf"\x1b\[1;31mUNSAFE: candidates run at tier {tier}", resumed)
    assert weak("check", toy_task, "--allow-unsafe").stdout.startswith("toy: 3 rewards")
