"""The filter of system calls, run step by step, against its specification in plain words."""

import errno
import struct

import pytest

from evolve.sandbox.syscalls import build_filter, denied_calls

KILL, ALLOW = 0x80000000, 0x7FFF0000
REFUSED, UNKNOWN = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CALLS = {
    "x86_64": {"clone": 56, "ioctl": 16, "fcntl": 72, "prlimit": 302, "clone3": 435},
    "aarch64": {"clone": 220, "ioctl": 29, "fcntl": 25, "prlimit": 261, "clone3": 435},
}


def verdict(program, number, args=(), arch=None):
    """What the kernel would do: classic BPF on ``struct seccomp_data``."""
    args = [*args, *[0] * (6 - len(args))]
    data = struct.pack("<iIQ6Q", number if number < 1 << 31 else number - (1 << 32), arch, 0, *args)
    steps = list(struct.iter_unpack("<HBBI", program))
    at, value, taken = 0, 0, 0
    while True:
        code, if_true, if_false, k = steps[at]
        at, taken = at + 1, taken + 1
        if code == 0x06:
            return k, taken
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, k)
        elif code == 0x05:
            at += k
        else:
            holds = {0x15: value == k, 0x25: value > k, 0x35: value >= k, 0x45: bool(value & k)}
            at += if_true if holds[code] else if_false


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request):
    return request.param


def test_what_is_denied_is_refused_and_the_rest_is_allowed(machine):
    program, denied = build_filter(machine), set(denied_calls(machine).values())
    assert len(denied) > 130
    for number in range(1 << 10):
        expected = ALLOW
        if number > 462 or number == CALLS[machine]["clone3"]:
            expected = UNKNOWN
        # A clone of no thread is a fork.
        elif number in denied or number == CALLS[machine]["clone"]:
            expected = REFUSED
        assert verdict(program, number, arch=ARCH[machine])[0] == expected, number


def test_arguments_decide_where_they_must(machine):
    program, calls = build_filter(machine), CALLS[machine]

    def of(name, *args):
        return verdict(program, calls[name], args, ARCH[machine])[0]

    thread = 0x3D0F00
    assert thread & 0x10000
    assert of("clone", thread) == ALLOW
    assert of("clone", thread & ~0x10000) == of("clone", 17) == REFUSED
    for command in (0x5412, 0x541C, 0x8901, 0x8902, 0x5452):
        assert of("ioctl", 0, command) == REFUSED
    for command in (8, 10, 15, 1024, 1026):
        assert of("fcntl", 0, command) == REFUSED
    assert of("ioctl", 0, 0x5401) == of("fcntl", 0, 1) == of("fcntl", 0, 3) == ALLOW
    assert of("prlimit", 0, 7, 0) == ALLOW
    assert of("prlimit", 0, 7, 0x7FFF0000) == of("prlimit", 0, 7, 1 << 32) == REFUSED


def test_candidates_with_processes_of_their_own_may_start_them_and_nothing_else(machine):
    program, strict = build_filter(machine, processes=True), build_filter(machine)
    numbers, calls = denied_calls(machine), CALLS[machine]
    eased = {
        name
        for name, number in {**numbers, "clone": calls["clone"]}.items()
        if verdict(program, number, arch=ARCH[machine])
        != verdict(strict, number, arch=ARCH[machine])
        and verdict(program, number, arch=ARCH[machine])[0] == ALLOW
    }
    assert {"execve", "kill", "clone"} <= eased
    # Nobody else's memory, no new sockets, mounts, namespaces, identities, limits or clocks.
    for name in (
        *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "socket"),
        *("connect", "bind", "mount", "unshare", "setns", "pivot_root", "bpf", "io_uring_setup"),
        *("setresuid", "setrlimit", "clock_settime", "keyctl", "userfaultfd", "shmget", "execveat"),
    ):
        assert name not in eased
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(program, calls["clone"], [flag | 17], ARCH[machine])[0] == REFUSED


def test_another_calling_convention_kills(machine):
    program = build_filter(machine)
    others = set(ARCH.values()) - {ARCH[machine]} | {0x40000003}
    for number in (0, 1, 60, 231):
        assert all(verdict(program, number, arch=arch)[0] == KILL for arch in others)
    if machine == "x86_64":
        assert verdict(program, 0x40000000, arch=ARCH[machine])[0] == KILL
        assert verdict(program, 0x4000003B, arch=ARCH[machine])[0] == KILL
        assert verdict(program, 0xFFFFFFFF, arch=ARCH[machine])[0] == KILL


def test_a_search_takes_few_steps(machine):
    program = build_filter(machine)
    # The kernel walks it once for every call there is, at the start of every candidate.
    assert max(verdict(program, n, arch=ARCH[machine])[1] for n in range(463)) < 60
