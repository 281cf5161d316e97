"""Attacks on the conversation with the judge, and on the judge."""

from tests.evolve.attacks import Attack, deeds, ends, forges


def forged(reply):
    # A forged answer is an answer: it is scored like any other, and nothing else in it counts.
    assert reply.output == {"score": 1.0, "status": "ok"}


def plain(reply):
    assert reply.detail.isprintable()


TO_EVERYONE = """
import os, struct
def f(x):
    frame = struct.pack("<IQ", 6, 7) + b'O"won"'
    for fd in range(64):
        try:
            os.write(fd, frame)
        except OSError:
            pass
    return "honest"
"""
EARLY = """
import os, struct
os.write(3, struct.pack("<IQ", 6, 0) + b'O"won"')
def f(x): return "honest"
"""
HIDE = """
class {name}({base}):
    def __eq__(self, other): return True
    __hash__ = {base}.__hash__
"""

ATTACKS = [
    Attack(
        26, "forged frame to every descriptor", TO_EVERYONE, "ABCD", statuses=("protocol_error",)
    ),
    forges(
        26,
        "forged frame with the right number",
        """forge(b'{"d":[["score",1.0],["status","ok"]]}')""",
        "ok",
        check=forged,
        shown="scored as an answer",
    ),
    forges(
        27,
        "two frames for one input",
        "forge(b'1', wait=0); forge(b'2')",
        "protocol_error",
        "ok",
        shown="one answer at most",
    ),
    forges(27, "two frames in one", "forge(b'1' + bytes(20), size=2)", "protocol_error"),
    Attack(27, "frame before the input", EARLY, "ABCD", statuses=("protocol_error",)),
    forges(27, "frame with another number", "forge(b'1', number=nonce() ^ 1)", "protocol_error"),
    forges(
        27, "empty frame", "os.write(3, struct.pack('<IQ', 0, nonce()))\nreturn 1", "protocol_error"
    ),
    forges(
        27,
        "unknown kind of frame",
        "os.write(3, struct.pack('<IQ', 1, nonce()) + b'?')\nreturn 1",
        "protocol_error",
    ),
    forges(28, "frame of 1 GB", "forge(b'', size=1 << 30)", "output_limit"),
    forges(
        28,
        "frame that never ends",
        "forge(b'1', size=1000)",
        "timeout_wall",
        wall="short",
    ),
    forges(28, "nested 10,000 deep", "forge(b'[' * 10_000 + b']' * 10_000)", "invalid_output"),
    forges(28, "integer of 60,000 digits", "forge(b'9' * 60_000)", "invalid_output"),
    forges(28, "NaN", "forge(b'[1, NaN]')", "invalid_output"),
    forges(28, "1e999", "forge(b'[1e999]')", "invalid_output"),
    forges(28, "bad UTF-8", "forge(b'\"\\xff\"')", "invalid_output"),
    forges(28, "same key twice", 'forge(b\'{"d":[["a",1],["a",2]]}\')', "invalid_output"),
    forges(
        28,
        "array larger than its bytes",
        'forge(b\'{"a":["<f8",[99999999],""]}\')',
        "invalid_output",
    ),
    forges(28, "array of objects", 'forge(b\'{"a":["|O",[1],"AAAAAAAAAAA="]}\')', "invalid_output"),
    forges(
        29,
        "pickle bomb as a frame",
        """
import pickle
class Bomb:
    def __reduce__(self): return os.system, ("true",)
forge(pickle.dumps(Bomb()))
""".strip(),
        "invalid_output",
    ),
    ends(
        29,
        "pickle bomb as an answer",
        "return type('B', (), {'__reduce__': lambda s: (print, ('pwned',))})()",
        "invalid_output",
    ),
    *(
        Attack(
            30,
            f"{base} that equals everything",
            HIDE.format(name=base.title(), base=base) + f"def f(x): return {base.title()}()",
            "ABCD",
            statuses=("invalid_output",),
        )
        for base in ("float", "str", "tuple", "int", "object")
    ),
    ends(30, "lazy generator", "return (i for i in range(10))", "invalid_output"),
    deeds(
        31,
        "search the process for the answers",
        """
import gc
wanted = x["hidden"][::-1]
def holds(value):
    return isinstance(value, str) and value.startswith(wanted)
def frames():
    frame = sys._getframe()
    while frame is not None:
        yield from frame.f_locals.values()
        yield from frame.f_globals.values()
        frame = frame.f_back
def search(values):
    for value in values:
        if holds(value) and value is not wanted:
            return
        for inner in value.values() if type(value) is dict else ():
            if holds(inner) and inner is not wanted:
                return
    raise OSError("not found")
attempt("objects", lambda: search(gc.get_objects()))
attempt("modules", lambda: search(m.__dict__ for m in list(sys.modules.values()) if m is not None))
attempt("frames", lambda: search(v for v in frames()))
attempt("judge", lambda: need("evolve.evaluate" in sys.modules or "evolve.task" in sys.modules))
""",
        tiers="ABCD",
    ),
    ends(67, "text with lone surrogates", "return ['\\ud800', '\\udfff']", "invalid_output"),
    ends(
        67,
        "output in another encoding",
        """
import sys
sys.stdout.buffer.write(b"\\xff\\xfe\\x00\\x1b[2J")
sys.stdout = None
return "ok"
""".strip(),
        "ok",
        shown="cleaned",
    ),
    ends(
        68,
        "keys that collide",
        "return {i * (2**61 - 1): 0 for i in range(1, 2000)}",
        "invalid_output",
    ),
    forges(
        68,
        "forged keys that collide",
        """
pairs = [b"[%d,0]" % (i * (2**61 - 1)) for i in range(1, 2000)]
forge(b'{"d":[' + b",".join(pairs) + b"]}")
""".strip(),
        "invalid_output",
    ),
    Attack(
        69,
        "close the channel and wait",
        "import os, time\ndef f(x):\n os.closerange(0, 64)\n time.sleep(60)",
        "ABCD",
        statuses=("protocol_error",),
    ),
    Attack(
        70,
        "rewrite the task's runner",
        """
import sys
frame = sys._getframe()
while frame.f_back is not None:
    frame = frame.f_back
    for name, value in list(frame.f_globals.items()):
        if callable(value) and name in ("run", "encode", "_answer", "_failure"):
            frame.f_globals[name] = lambda *_: {"score": 1.0}
def f(x): return "honest"
""",
        "ABCD",
        statuses=("ok", "exception", "exited_early", "protocol_error", "invalid_output"),
        check=lambda reply: _unscored(reply),
        shown="at most another answer",
    ),
    Attack(
        72,
        "replace zip, eval and sorted under the runner's feet",
        """
import builtins
builtins.zip = builtins.eval = builtins.sorted = lambda *_: {"score": 1.0}
def f(x): return "honest"
""",
        "ABCD",
        check=lambda reply: _unscored(reply),
        shown="at most another answer",
    ),
    Attack(
        73,
        "finaliser that answers once more",
        """
import gc, os, struct
class Late:
    def __init__(self): self.me = self
    def __del__(self): os.write(3, struct.pack("<IQ", 6, 7) + b'O"won"')
def f(x):
    Late()
    gc.set_threshold(1)
    return "honest"
""",
        "ABCD",
        statuses=("ok", "protocol_error"),
        check=lambda reply: _unscored(reply),
        shown="one answer at most",
    ),
    Attack(
        71,
        "array that lies about itself",
        """
import numpy
class Array(numpy.ndarray):
    def __array__(self, *_, **__): return numpy.ones(3)
    __array_interface__ = {"shape": (3,), "typestr": "<f8", "data": (0, False), "version": 3}
def f(x): return numpy.zeros(3).view(Array)
""",
        "ABCD",
        statuses=("invalid_output",),
    ),
    Attack(
        71,
        "array of a hostile dtype",
        """
import numpy
def f(x): return numpy.zeros(3, dtype=[("a", "f8"), ("b", "O")])
""",
        "ABCD",
        statuses=("invalid_output",),
    ),
]


def _unscored(reply):
    assert reply.output in ("honest", {"score": 1.0}, None)
