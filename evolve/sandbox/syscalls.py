"""The system calls that a candidate may not make, as a seccomp filter.

A list of what is denied, not of what is allowed: an allowlist for numpy, BLAS and the C library
breaks with their upgrades. Denied calls fail with EPERM, as if the kernel lacked the right; calls
newer than this table fail with ENOSYS; a foreign calling convention kills. Files are Landlock's
business, see :mod:`evolve.sandbox.confine`.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable

# Each name with its number on x86_64 and on aarch64 (linux/arch/x86/entry/syscalls/syscall_64.tbl,
# linux/include/uapi/asm-generic/unistd.h). Comments run to the end of their line.
_DENIED = """
    # New processes, signals, other processes' memory, own session and traits.
    fork=57/- vfork=58/- execve=59/221 execveat=322/281 kill=62/129 tkill=200/130
    tgkill=234/131 rt_sigqueueinfo=129/138 rt_tgsigqueueinfo=297/240 pidfd_open=434/434
    pidfd_getfd=438/438 pidfd_send_signal=424/424 ptrace=101/117 process_vm_readv=310/270
    process_vm_writev=311/271 process_madvise=440/440 process_mrelease=448/448 kcmp=312/272
    setsid=112/157 setpgid=109/154 prctl=157/167 personality=135/92
    # Sockets; the channel to the judge is used by read and write alone.
    socket=41/198 socketpair=53/199 connect=42/203 bind=49/200 listen=50/201 accept=43/202
    accept4=288/242 sendto=44/206 sendmsg=46/211 sendmmsg=307/269 recvfrom=45/207
    recvmsg=47/212 recvmmsg=299/243 setsockopt=54/208 getsockopt=55/209 shutdown=48/210
    # Mounts and namespaces.
    mount=165/40 umount2=166/39 pivot_root=155/41 chroot=161/51 move_mount=429/429
    open_tree=428/428 fsopen=430/430 fsconfig=431/431 fsmount=432/432 fspick=433/433
    mount_setattr=442/442 unshare=272/97 setns=308/268
    # Kernel services with a history of holes, or with no use here.
    bpf=321/280 perf_event_open=298/241 keyctl=250/219 add_key=248/217 request_key=249/218
    io_uring_setup=425/425 io_uring_enter=426/426 io_uring_register=427/427 io_setup=206/0
    userfaultfd=323/282 seccomp=317/277 fanotify_init=300/262 inotify_init=253/-
    inotify_init1=294/26 kexec_load=246/104 kexec_file_load=320/294 init_module=175/105
    finit_module=313/273 delete_module=176/106 reboot=169/142 swapon=167/224 swapoff=168/225
    sethostname=170/161 setdomainname=171/162 acct=163/89 quotactl=179/60 quotactl_fd=443/443
    syslog=103/116 iopl=172/- ioperm=173/- modify_ldt=154/- vhangup=153/58
    lookup_dcookie=212/18 migrate_pages=256/238 move_pages=279/239 sync=162/81 syncfs=306/267
    # Ways to leave something for the next program.
    shmget=29/194 shmat=30/196 shmctl=31/195 shmdt=67/197 semget=64/190 semop=65/193
    semctl=66/191 semtimedop=220/192 msgget=68/186 msgsnd=69/189 msgrcv=70/188 msgctl=71/187
    mq_open=240/180 mq_unlink=241/181 mq_timedsend=242/182 mq_timedreceive=243/183
    mq_notify=244/184 mq_getsetattr=245/185 memfd_create=319/279 memfd_secret=447/447
    # What Landlock does not cover of files.
    chmod=90/- fchmod=91/52 fchmodat=268/53 fchmodat2=452/452 chown=92/- fchown=93/55
    lchown=94/- fchownat=260/54 utime=132/- utimes=235/- utimensat=280/88 futimesat=261/-
    setxattr=188/5 lsetxattr=189/6 fsetxattr=190/7 removexattr=197/14 lremovexattr=198/15
    fremovexattr=199/16 truncate=76/45 mknod=133/- mknodat=259/33 name_to_handle_at=303/264
    open_by_handle_at=304/265
    # Limits, priorities, identities, clocks.
    setrlimit=160/164 setpriority=141/140 ioprio_set=251/30 sched_setaffinity=203/122
    sched_setscheduler=144/119 sched_setparam=142/118 sched_setattr=314/274 setuid=105/146
    setgid=106/144 setreuid=113/145 setregid=114/143 setresuid=117/147 setresgid=119/149
    setgroups=116/159 setfsuid=122/151 setfsgid=123/152 capset=126/91 clock_settime=227/112
    clock_adjtime=305/266 settimeofday=164/170 adjtimex=159/171
"""
# What the calls above are to a candidate that may start processes and write files of its own: it
# lives among processes and files that are its own, so signals and modes can hurt nobody else.
_OWN = frozenset(
    [
        *("fork", "vfork", "execve", "kill", "tkill", "tgkill", "setsid", "setpgid"),
        *("socketpair", "sendto", "sendmsg", "recvfrom", "recvmsg", "setsockopt", "getsockopt"),
        *("shutdown", "chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "utimensat"),
        *("futimesat", "truncate"),
    ]
)
#: The last call of the tables above, mseal; both numberings agree from 424 on.
_LAST_KNOWN = 462

_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_IOCTL = {"x86_64": 16, "aarch64": 29}
_FCNTL = {"x86_64": 72, "aarch64": 25}
_PRLIMIT64 = {"x86_64": 302, "aarch64": 261}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE_THREAD = 0x10000
# NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET
_CLONE_NAMESPACES = 0x7E020000
# Pushing characters into a terminal; having signals sent in one's name when a socket is ready.
_IOCTLS = (0x5412, 0x541C, 0x8901, 0x8902, 0x5452)  # TIOCSTI TIOCLINUX FIOSETOWN SIOCSPGRP FIOASYNC
_FCNTLS = (8, 10, 15, 1024, 1026)  # F_SETOWN F_SETSIG F_SETOWN_EX F_SETLEASE F_NOTIFY

_LOAD, _RETURN, _JUMP = 0x20, 0x06, 0x05
_JUMP_EQUAL, _JUMP_ABOVE, _JUMP_AT_LEAST, _JUMP_BITS = 0x15, 0x25, 0x35, 0x45
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_NR, _ARCH, _ARGS = 0, 4, 16


def denied_calls(machine: str) -> dict[str, int]:
    """Return name -> number of the denied calls of an architecture."""
    column = ("x86_64", "aarch64").index(machine)
    lines = (line.split("#")[0] for line in _DENIED.splitlines())
    entries = (entry.split("=") for line in lines for entry in line.split())
    numbers = {name: both.split("/")[column] for name, both in entries}
    return {name: int(number) for name, number in numbers.items() if number != "-"}


def supported(machine: str | None = None) -> bool:
    """Return whether there is a table for this machine's architecture."""
    return (machine or platform.machine()) in _AUDIT_ARCH


def build_filter(machine: str | None = None, *, processes: bool = False) -> bytes:
    """Return the program of the filter, an array of ``struct sock_filter``, little endian.

    Args:
        machine: As :func:`platform.machine` has it, by default this one.
        processes: Let it start processes, signal them, and change the modes of its files. Only for
            candidates that have process numbers and files of their own.
    """
    machine = machine or platform.machine()
    eperm, enosys = (0x00050000 | number for number in (errno.EPERM, errno.ENOSYS))
    program = [
        _step(_LOAD, _ARCH),
        _step(_JUMP_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NR),
    ]
    if machine == "x86_64":
        # The x32 convention reaches the same calls under other numbers.
        program += [_step(_JUMP_BITS, 0x40000000, 0, 1), _step(_RETURN, _KILL)]
    program += [_step(_JUMP_ABOVE, _LAST_KNOWN, 0, 1), _step(_RETURN, enosys)]
    # The C library falls back to clone, whose flags a filter can see.
    program += [_step(_JUMP_EQUAL, _CLONE3, 0, 1), _step(_RETURN, enosys)]
    denied = denied_calls(machine)
    if processes:
        denied = {name: number for name, number in denied.items() if name not in _OWN}
    program += _search(_ranges(denied.values()), eperm)
    flags = (_CLONE_NAMESPACES, 0, 1) if processes else (_CLONE_THREAD, 1, 0)
    program += _guarded(_CLONE[machine], [_arg(0), _step(_JUMP_BITS, *flags)], eperm)
    for call, commands in ((_IOCTL[machine], _IOCTLS), (_FCNTL[machine], _FCNTLS)):
        for command in commands:
            program += _guarded(call, [_arg(1), _step(_JUMP_EQUAL, command, 0, 1)], eperm)
    # Reading limits is the same call with no new limit, a null pointer.
    for half in (0, 4):
        test = [_arg(2, half), _step(_JUMP_EQUAL, 0, 1, 0)]
        program += _guarded(_PRLIMIT64[machine], test, eperm)
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _arg(index: int, half: int = 0) -> bytes:
    return _step(_LOAD, _ARGS + 8 * index + half)


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the runs of consecutive numbers, both ends included, in order."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _search(ranges: list[tuple[int, int]], verdict: int) -> list[bytes]:
    """Return steps that give ``verdict`` for a call in a range and pass over any other.

    A binary search: the kernel tries a filter on every number of a call when it is installed, which
    each candidate's process pays for.
    """
    if len(ranges) == 1:
        ((low, high),) = ranges
        inside = [_step(_JUMP_ABOVE, high, 1, 0), _step(_RETURN, verdict)]
        return [_step(_JUMP_AT_LEAST, low, 0, 2), *inside]
    middle = len(ranges) // 2
    below, above = _search(ranges[:middle], verdict), _search(ranges[middle:], verdict)
    skip = _step(_JUMP, len(above))
    return [_step(_JUMP_AT_LEAST, ranges[middle][0], len(below) + 1, 0), *below, skip, *above]


def _guarded(call: int, test: list[bytes], verdict: int) -> list[bytes]:
    """Return steps that give ``verdict`` for ``call`` unless ``test`` jumps over it."""
    body = [*test, _step(_RETURN, verdict), _step(_LOAD, _NR)]
    return [_step(_JUMP_EQUAL, call, 0, len(body)), *body]
