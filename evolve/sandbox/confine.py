"""Taking rights away from the calling process: identity, Landlock, seccomp.

A :class:`Confinement` is prepared once in a worker, since rules and filters are the same for every
candidate; :meth:`Confinement.enter` is what each child does, and any step that fails raises: a
child that cannot be confined never runs a candidate.

Covered on Linux, x86_64 and aarch64, by direct system calls. Not covered by Landlock: that a path
exists, its size and times (``stat``).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from evolve.sandbox import syscalls

_LIBC = ctypes.CDLL(None, use_errno=True)
# Elsewhere than on Linux no tier is found to work, and none of this is called.
_PRCTL: Any = getattr(_LIBC, "prctl", None)
_SYSCALL = _LIBC.syscall
_SYSCALL.restype = ctypes.c_long

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS = 1, 4, 8
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_SIGKILL = 9
# linux/landlock.h; the numbers of the calls are the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
# Of the rights from 16 on: remove folders and files, make folders, files, pipes and links, move,
# truncate; not to make devices or sockets.
_OWN_FOLDER = (
    _WRITE_FILE | _READ_FILE | _READ_DIR | 16 | 32 | 128 | 256 | 1024 | 4096 | 8192 | 16384
)
#: Number of file rights known to each version of the interface; the network's and the scopes'.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NET_RIGHTS, _SCOPES = 0b11, 0b11
_CAPSET_VERSION_3 = 0x20080522
_CAP_DAC_READ_SEARCH = 2
_CAPSET = {"x86_64": 126, "aarch64": 91}


class Confinement:
    """What each candidate's process gives up."""

    def __init__(self, layers: Mapping[str, Any]) -> None:
        """Prepare the layers.

        Args:
            layers: ``landlock`` and ``seccomp``: whether to use them; ``uid``: the user that a
                candidate becomes when the worker is root, else None; ``readable``: paths whose
                content may be read; ``listable``: folders of which only the names may;
                ``writable``: folders that are the candidate's own; ``processes``: whether it may
                start other processes, of the readable programs; ``runnable``: whether also of
                programs that it has written.

        Raises:
            OSError: If the kernel lacks a layer.
        """
        self._rules = -1
        if layers["landlock"]:
            self._rules = _ruleset(layers)
        self._filter = None
        if layers["seccomp"]:
            self._filter = _SockFprog(syscalls.build_filter(processes=layers["processes"]))
        # Nobody who may trace us, dump us or read our environment, children included.
        _check(_PRCTL(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")
        self._uid: int | None = layers["uid"] if os.geteuid() == 0 else None
        self._keep_reading = False
        if self._uid is not None:
            self._choose_identity(self._uid, layers["readable"])

    def enter(self) -> None:
        """Give up the rights, for good.

        Raises:
            OSError: If a step is refused; the process must not go on then.
        """
        if self._uid is not None:
            _become(self._uid, keep_reading=self._keep_reading)
        elif os.geteuid() == 0 and os.uname().machine in _CAPSET:
            _drop_capabilities(0)
        _check(_PRCTL(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl")
        _check(_PRCTL(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
        if self._rules >= 0:
            _check(_SYSCALL(_RESTRICT_SELF, self._rules, 0), "landlock_restrict_self")
        if self._filter is not None:
            done = _PRCTL(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(self._filter), 0, 0)
            _check(done, "seccomp")

    def _choose_identity(self, uid: int, readable: Sequence[str]) -> None:
        """Find out, in a child, whether ``uid`` exists here and can read what it must."""
        pid = os.fork()
        if pid == 0:
            try:
                _become(uid, keep_reading=False)
                os._exit(0 if all(os.access(path, os.R_OK) for path in readable) else 1)
            finally:
                os._exit(2)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code == 2:
            # Root of a container with one user, or without the right to change it: as that root,
            # but without capabilities.
            self._uid = None
        if code == 1 and self._rules < 0:
            raise PermissionError(errno.EACCES, f"the interpreter is not readable for user {uid}")
        # The interpreter lives in root's home. Landlock still confines what can be read.
        self._keep_reading = code == 1


def landlock_version() -> int:
    """Return the version of the kernel's Landlock interface, 0 if there is none."""
    version = _SYSCALL(_CREATE_RULESET, None, 0, _GET_VERSION)
    return max(0, int(version))


class _SockFprog(ctypes.Structure):
    """``struct sock_fprog`` of linux/filter.h."""

    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    def __init__(self, program: bytes) -> None:
        super().__init__(len(program) // 8, program)


def _ruleset(layers: Mapping[str, Any]) -> int:
    version = landlock_version()
    if version == 0:
        raise OSError(errno.EOPNOTSUPP, "the kernel has no Landlock")
    handled = (1 << _FILE_RIGHTS[min(version, 5)]) - 1
    attributes = struct.pack(
        "=QQQ",
        handled,
        _NET_RIGHTS if version >= 4 else 0,
        # No signal and no abstract socket of a process outside.
        _SCOPES if version >= 6 else 0,
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = int(_check(_SYSCALL(_CREATE_RULESET, attributes, size, 0), "landlock_create_ruleset"))
    read = _READ_FILE | (_EXECUTE if layers["processes"] else 0)
    for path in layers["readable"]:
        _allow(rules, path, read | _READ_DIR if os.path.isdir(path) else read)  # noqa: PTH112
    for path in layers["listable"]:
        _allow(rules, path, _READ_DIR)
    for path in layers["writable"]:
        own = _OWN_FOLDER | (_EXECUTE if layers["runnable"] else 0)
        _allow(rules, path, own & handled)
    # Out of the way of the low numbers, which a child gives to its pipes.
    high = fcntl.fcntl(rules, fcntl.F_DUPFD_CLOEXEC, 32)
    os.close(rules)
    return high


def _allow(rules: int, path: str, rights: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, opened)
        _check(_SYSCALL(_ADD_RULE, rules, _PATH_BENEATH, rule, 0), "landlock_add_rule")
    finally:
        os.close(opened)


def _become(uid: int, *, keep_reading: bool) -> None:
    if keep_reading:
        _check(_PRCTL(_PR_SET_KEEPCAPS, 1, 0, 0, 0), "prctl")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _drop_capabilities(1 << _CAP_DAC_READ_SEARCH if keep_reading else 0)


def _drop_capabilities(kept: int) -> None:
    header = struct.pack("=Ii", _CAPSET_VERSION_3, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    sets = struct.pack("=IIIIII", low, low, 0, high, high, 0)
    number = _CAPSET[os.uname().machine]
    _check(_SYSCALL(number, header, sets), "capset")


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result
