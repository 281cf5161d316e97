"""Hostile programs, and what must become of them.

Numbers 1 to 48 are the project's list of known attacks and reward hacks, 49 and up its own. They
need the standard library only, so that they also run with a system's Python.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evolve.sandbox import Reply

#: Every deed is tried; what came of it is the answer.
PRELUDE = """
import ctypes, os, sys
done, refused = [], {}
def attempt(name, deed, *args):
    try:
        deed(*args)
    except Exception as error:
        refused[name] = type(error).__name__
    else:
        done.append(name)
def need(true):
    if not true:
        raise OSError("refused")
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *args):
    if number is None:
        raise OSError("no such call here")
    result = libc.syscall(ctypes.c_long(number), *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result
"""


@dataclass(frozen=True)
class Attack:
    """A hostile program.

    Attributes:
        number: Its row in the list.
        name: What it tries.
        source: Its text.
        tiers: Where it is run, and where its failure is promised.
        leaks: Where it is run and known to get through.
        statuses: Statuses that count as its failure; ``ok`` if it answers with what it could do.
        check: Raises if the answer shows more than it should: ``check(reply)``.
        wall: Seconds; the default gives a busy machine room.
        shown: Failure in words, for the table; by default the status.
    """

    number: int
    name: str
    source: str
    tiers: str
    leaks: str = ""
    statuses: tuple[str, ...] = ("ok",)
    check: Callable[[Reply], None] | None = None
    wall: str = "long"
    shown: str = ""


def deeds(number: int, name: str, body: str, tiers: str = "AB", leaks: str = "") -> Attack:
    """An attack by deeds, each of which must be refused."""
    lines = "\n".join(" " + line for line in body.strip("\n").splitlines())
    source = f"{PRELUDE}\ndef f(x):\n{lines}\n return [done, refused]\n"
    return Attack(number, name, source, tiers, leaks, check=nothing_done, shown="refused")


def nothing_done(reply: Reply) -> None:
    """Every deed was tried, and none succeeded."""
    done, refused = reply.output
    assert not done, f"it could {done}"
    assert refused


def ends(number: int, name: str, body: str, *statuses: str, **rest: Any) -> Attack:
    """An attack that must end with one of ``statuses``; harmless enough for every tier."""
    lines = "\n".join(" " + line for line in body.strip("\n").splitlines())
    return Attack(number, name, f"def f(x):\n{lines}\n", "ABCD", statuses=statuses, **rest)


#: What a program needs to forge a frame: the number it was sent is on the stack of its process.
FORGE = """
import os, struct, sys, time
def nonce():
    frame = sys._getframe()
    while frame is not None:
        if type(frame.f_locals.get("nonce")) is int:
            return frame.f_locals["nonce"]
        frame = frame.f_back
def forge(body, number=None, size=None, wait=60):
    payload = b"O" + body
    number = nonce() if number is None else number
    size = len(payload) if size is None else size
    data = struct.pack("<IQ", size, number) + payload
    while data:
        data = data[os.write(3, data):]
    time.sleep(wait)
"""


def forges(number: int, name: str, body: str, *statuses: str, **rest: Any) -> Attack:
    """An attack that writes to the channel by itself."""
    attack = ends(number, name, body, *statuses, **rest)
    return Attack(**{**attack.__dict__, "source": FORGE + attack.source})
