"""Attacks on time, memory, output and the interpreter; harmless enough for every tier."""

from tests.evolve.attacks import Attack, ends

TIMEOUT = ("timeout_cpu", "timeout_wall")
IGNORE = """
import signal
for s in (signal.SIGTERM, signal.SIGXCPU, signal.SIGALRM, signal.SIGINT, signal.SIGHUP):
    signal.signal(s, signal.SIG_IGN)
while True: pass
"""


def few_threads(reply):
    assert reply.output < 400


def few_descriptors(reply):
    assert reply.output < 64


def said(text):
    def check(reply):
        assert text in reply.detail, reply.detail
        assert len(reply.detail) <= 500
        assert reply.detail.isprintable()

    return check


def slept(reply):
    assert reply.wall_s >= 0.3
    assert reply.output == "spoilt"


def first_time(reply):
    assert reply.output == 1


ATTACKS = [
    ends(
        15,
        "400 threads",
        """
import threading, time
started = 0
try:
    for _ in range(400):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        started += 1
except RuntimeError:
    pass
return started
""",
        "ok",
        "memory",
        "crashed",
        check=few_threads,
        shown="stopped by the memory limit",
    ),
    ends(16, "6 GiB of memory", "return len(bytearray(6 << 30))", "memory"),
    ends(
        18,
        "open descriptors without end",
        """
import os
opened = 0
try:
    while True:
        os.dup(1)
        opened += 1
except OSError:
    return opened
""",
        "ok",
        check=few_descriptors,
        shown="stopped by the limit",
    ),
    ends(19, "spin in Python", "while True: pass", *TIMEOUT),
    ends(19, "spin in C", "return sum(range(10**12))", *TIMEOUT),
    ends(20, "sleep for ever", "import time; time.sleep(10**6)", "timeout_wall", wall="short"),
    ends(
        20,
        "stop and wait for a signal",
        "import threading; threading.Lock().acquire() and threading.Event().wait()",
        "timeout_wall",
        wall="short",
    ),
    ends(21, "ignore signals, then spin", IGNORE.strip(), *TIMEOUT),
    ends(22, "os._exit(0)", "import os; os._exit(0)", "exited_early"),
    ends(22, "sys.exit(0)", "import sys; sys.exit(0)", "exited_early"),
    ends(22, "raise SystemExit", "raise SystemExit(0)", "exited_early"),
    ends(22, "raise KeyboardInterrupt", "raise KeyboardInterrupt", "exception"),
    ends(23, "segfault", "import ctypes; ctypes.string_at(0)", "crashed"),
    ends(23, "abort", "import os; os.abort()", "crashed"),
    ends(
        24,
        "recurse a thousand million deep",
        "import sys; sys.setrecursionlimit(10**9)\ng = lambda: [g()]\nreturn g()",
        "crashed",
        "memory",
        "exception",
        *TIMEOUT,
    ),
    ends(
        25,
        "print a forged score",
        """print('{"status": "ok", "score": 1.0}')\nreturn "honest" """.strip(),
        "ok",
        check=lambda reply: _equal(reply.output, "honest"),
        shown="ignored",
    ),
    ends(25, "print 128 MB", "for _ in range(128): print('x' * (1 << 20))", "output_limit"),
    ends(
        32,
        "patch the clock, sum, json and the comparison",
        """
import builtins, json, time
wait = time.sleep
for name in ("time", "monotonic", "perf_counter", "process_time", "sleep"):
    setattr(time, name, lambda *_: 0.0)
json.dumps = json.loads = builtins.sum = lambda *_, **__: "perfect"
wait(0.3)
return "spoilt"
""",
        "ok",
        check=slept,
        shown="the judge's clock and functions are its own",
    ),
    Attack(
        33,
        "spoil the next program",
        """
import builtins, math, sys
builtins.sum = math.sqrt = lambda *_: 42
sys.modules["json"] = None
def f(x): return sum(x)
""",
        "ABCD",
        check=lambda reply: _equal(reply.output, 42),
        shown="the next program is clean",
    ),
    Attack(
        33,
        "spoil its own process",
        "import builtins\nbuiltins.len = lambda _: 42\ndef f(x): return 1",
        "ABCD",
        statuses=(*TIMEOUT, "protocol_error", "exited_early"),
        wall="short",
    ),
    Attack(
        44,
        "go on after the answer",
        """
import atexit, sys, threading
def spin():
    while True: pass
class Late:
    def __del__(self): spin()
atexit.register(spin)
late = Late()
def f(x):
    threading.Thread(target=spin).start()
    sys.settrace(lambda *_: None)
    return "answer"
""",
        "ABCD",
        check=lambda reply: _equal(reply.output, "answer"),
        shown="killed at the verdict",
    ),
    Attack(
        45,
        "remember answers for the repeat",
        """
import sys
memory = sys.__dict__.setdefault("evolve_attack", [])
def f(x):
    memory.append(1)
    return len(memory)
""",
        "ABCD",
        check=first_time,
        shown="each run starts afresh",
    ),
    Attack(47, "source with NUL", "a = '\0'", "ABCD", statuses=("syntax_error",)),
    Attack(47, "60,000 operators", "a = " + "-" * 60_000 + "1", "ABCD", statuses=("syntax_error",)),
    Attack(47, "60,000 brackets", "(" * 60_000, "ABCD", statuses=("syntax_error",)),
    Attack(47, "10 MB of source", "a = 1\n" * 1_700_000, "ABCD", statuses=("syntax_error",)),
    Attack(
        59,
        "compile-time bomb",
        "def f(x):\n return " + "lambda:" * 9_000 + "0",
        "ABCD",
        statuses=("syntax_error", "crashed", "memory"),
    ),
    Attack(
        59,
        "constant-folding bomb",
        "def f(x): return ((((2**99)**99)**99)**99)**99",
        "ABCD",
        statuses=("memory", "exception", *TIMEOUT),
    ),
    Attack(
        60,
        "hook every import",
        """
import builtins, sys
def hook(*_, **__): raise ImportError("mine")
builtins.__import__ = hook
sys.meta_path[:] = [type("Finder", (), {"find_spec": hook})()]
def f(x):
    import json
""",
        "ABCD",
        statuses=("exception",),
    ),
    ends(
        61,
        "error message of 100 MB",
        "raise ValueError('long ' * (20 << 20))",
        "exception",
        check=said("ValueError: long long"),
    ),
    ends(
        61,
        "answer with a huge repr",
        "return type('A', (), {'__repr__': lambda s: 'x' * (1 << 30)})()",
        "invalid_output",
        check=said("A is not plain data"),
    ),
    ends(
        62,
        "terminal escapes and reordered text in an error",
        """
Error = type("\\x1b[2JE\\u202e", (Exception,), {})
raise Error("\\x1b]0;t\\x07\\u2066red\\x9b31m\\r\\n\\x00")
""".strip(),
        "exception",
        check=said("E?: ?red"),
    ),
    ends(
        63,
        "error whose text raises",
        """
class Worse(Exception):
    def __str__(self): raise SystemExit
    __repr__ = __str__
raise Worse
""",
        "exception",
        check=said("(its message cannot be shown)"),
    ),
    ends(
        64,
        "decompression bomb",
        """
import zlib
packer = zlib.compressobj()
block = bytes(1 << 24)
bomb = b"".join(packer.compress(block) for _ in range(128)) + packer.flush()
return len(zlib.decompress(bomb))
""",
        "memory",
        *TIMEOUT,
    ),
    ends(
        65,
        "audit hook that refuses everything",
        """
import sys
def no(*_): raise RuntimeError("no")
sys.addaudithook(no)
return sys._getframe().f_back.f_code.co_name
""",
        "exception",
        "exited_early",
    ),
    ends(
        66,
        "never yield to another thread",
        """
import sys, threading
sys.setswitchinterval(10**6)
threading.Thread(target=lambda: sum(range(10**12))).start()
return sum(range(10**12))
""",
        *TIMEOUT,
    ),
]


def _equal(got, wanted):
    assert got == wanted
