"""Attacks on processes, the network, the kernel and the process's own limits."""

import platform

from tests.evolve.attacks import Attack, deeds

ATTACKS = [
    deeds(
        9,
        "trace the parent",
        """
for pid in (os.getppid(), x["pid"]):
    attempt(f"seize {pid}", call, x["calls"]["ptrace"], 0x4206, pid, 0, 0)
attempt("trace me", call, x["calls"]["ptrace"], 0, 0, 0, 0)
""",
        tiers="ABC",
    ),
    deeds(
        10,
        "read and write the parent's memory",
        """
nr = x["calls"]
buffer = ctypes.create_string_buffer(8)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
for pid in (os.getppid(), x["pid"]):
    attempt(f"read {pid}", call, nr["process_vm_readv"], pid, vector, 1, vector, 1, 0)
    attempt(f"write {pid}", call, nr["process_vm_writev"], pid, vector, 1, vector, 1, 0)
attempt("pidfd", lambda: os.pidfd_open(os.getppid()))
attempt("pidfd_getfd", call, nr["pidfd_getfd"], 3, 0, 0)
""",
        tiers="ABC",
    ),
    deeds(
        11,
        "kill the parent, everybody, stop itself",
        """
import signal
# Signal 0 only asks; the rest follows if the asking is refused.
attempt("ask", os.kill, os.getppid(), 0)
attempt("ask driver", os.kill, x["pid"], 0)
if not done:
    attempt("parent", os.kill, os.getppid(), signal.SIGKILL)
    attempt("driver", os.kill, x["pid"], signal.SIGKILL)
    attempt("group", os.killpg, os.getpgid(os.getppid()), signal.SIGKILL)
    attempt("everybody", os.kill, -1, signal.SIGKILL)
    attempt("queue", call, x["calls"]["rt_sigqueueinfo"], os.getppid(), 9, bytes(128))
    attempt("thread", call, x["calls"]["tgkill"], os.getppid(), os.getppid(), 9)
    attempt("stop", os.kill, os.getpid(), signal.SIGSTOP)
""",
    ),
    deeds(
        12,
        "fork, fork bomb",
        """
def fork():
    if os.fork() == 0:
        os._exit(0)
for i in range(200):
    attempt(f"fork {i}", fork)
attempt("forkpty", lambda: os.forkpty()[0] or os._exit(0))
""",
        tiers="ABC",
    ),
    deeds(
        13,
        "leave a daemon that writes after the verdict",
        """
import time
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1)
            open(x["folder"] + "/daemon", "w").close()
        os._exit(0)
attempt("daemon", daemon)
attempt("setsid", os.setsid)
attempt("setpgid", os.setpgid, 0, 0)
""",
        tiers="ABC",
    ),
    deeds(
        14,
        "run other programs",
        """
import subprocess
attempt("subprocess", lambda: subprocess.run([sys.executable, "-c", ""], check=True))
attempt("system", lambda: need(os.system("true") == 0))
attempt("popen", lambda: os.popen("true"))
attempt("spawn", lambda: os.posix_spawn(sys.executable, ["python", "-c", ""], {}))
attempt("exec", lambda: os.execv(sys.executable, ["python", "-c", ""]))
attempt("execveat", call, x["calls"]["execveat"], 3, b"", None, None, 0x1000)
attempt("memfd", lambda: os.memfd_create("x"))
attempt("multiprocessing", lambda: __import__("multiprocessing").Process(target=int).start())
""",
        tiers="ABC",
    ),
    deeds(
        35,
        "open the network: TCP, UDP, abstract and named sockets",
        """
import socket
def connect(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(1)
        s.connect(address)
        s.send(b"hello")
attempt("tcp", connect, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", x["port"]))
attempt("udp", connect, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", x["port"]))
attempt("abstract", connect, socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + x["abstract"])
attempt("netlink", socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 0)
attempt("listen", lambda: socket.create_server(("127.0.0.1", 0)))
attempt("pair", socket.socketpair)
attempt("dns", socket.getaddrinfo, "localhost.invalid", 80)
""",
        tiers="ABC",
    ),
    deeds(
        37,
        "unshare a user namespace, mount",
        """
nr = x["calls"]
attempt("unshare user", call, nr["unshare"], 0x10000000)
attempt("unshare mount", call, nr["unshare"], 0x00020000)
attempt("setns", call, nr["setns"], 3, 0)
attempt("mount", call, nr["mount"], b"none", b"/tmp", b"tmpfs", 0, None)
attempt("chroot", os.chroot, "/")
attempt("fsopen", call, nr["fsopen"], b"tmpfs", 0)
attempt("open_tree", call, nr["open_tree"], -100, b"/", 1)
""",
        tiers="ABC",
    ),
    deeds(
        38,
        "io_uring, bpf, userfaultfd, keyctl, perf events",
        """
nr, block = x["calls"], bytes(128)
attempt("io_uring", call, nr["io_uring_setup"], 1, block)
attempt("bpf", call, nr["bpf"], 0, block, 72)
attempt("userfaultfd", call, nr["userfaultfd"], 1)
attempt("keyctl", call, nr["keyctl"], 0, -3, 1)
attempt("perf", call, nr["perf_event_open"], block, 0, -1, -1, 0)
attempt("seccomp", call, nr["seccomp"], 1, 0, block)
""",
        tiers="ABC",
    ),
    deeds(
        40,
        "raise its own limits",
        """
import resource
for name in ("AS", "CPU", "NOFILE", "FSIZE", "CORE"):
    kind = getattr(resource, "RLIMIT_" + name)
    attempt(name, resource.setrlimit, kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    attempt(name + " of the parent", resource.prlimit, os.getppid(), kind, (1, 1))
resource.getrlimit(resource.RLIMIT_AS)
""",
        tiers="ABC",
    ),
    deeds(
        41,
        "set the clock, priority, affinity",
        """
import time
attempt("clock", lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()))
attempt("adjtimex", call, x["calls"]["adjtimex"], bytes(256))
attempt("nice", lambda: os.nice(-10))
attempt("nicer", lambda: os.setpriority(os.PRIO_PROCESS, 0, 5))
attempt("affinity", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
attempt("scheduler", lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)))
""",
        tiers="ABC",
    ),
    deeds(
        53,
        "have signals sent in its name",
        """
import fcntl
for command in (fcntl.F_SETOWN, fcntl.F_SETSIG, fcntl.F_NOTIFY, fcntl.F_SETLEASE):
    attempt(f"fcntl {command}", fcntl.fcntl, 3, command, 0)
for request in (0x8901, 0x8902, 0x5452):
    attempt(f"ioctl {request}", fcntl.ioctl, 3, request, bytes(4))
""",
        tiers="ABC",
    ),
    deeds(
        54,
        "fork by raw system calls",
        """
arguments = (ctypes.c_uint64 * 11)()
arguments[4] = 17
attempt("clone3", call, 435, arguments, 88)
attempt("clone", call, 56 if os.uname().machine == "x86_64" else 220, 17, 0, 0, 0, 0)
attempt("vfork", call, x["calls"].get("vfork"))
attempt("beyond the table", call, 1000)
""",
        tiers="ABC",
    ),
    deeds(
        55,
        "undo its confinement",
        """
nr = x["calls"]
attempt("dumpable", call, nr["prctl"], 4, 1, 0, 0, 0)
attempt("outlive the parent", call, nr["prctl"], 1, 0, 0, 0, 0)
attempt("root", os.setuid, 0)
attempt("groups", os.setgroups, [0])
attempt("capabilities", call, nr["capset"], bytes(8), bytes(24))
attempt("personality", call, nr["personality"], 0x0040000)
""",
        tiers="ABC",
    ),
    deeds(
        56,
        "use the channel as a socket",
        """
nr, message = x["calls"], bytes(56)
attempt("send a descriptor", call, nr["sendmsg"], 3, message, 0)
attempt("receive one", call, nr["recvmsg"], 3, message, 0)
attempt("peek", call, nr["recvfrom"], 3, message, 1, 0x42, None, None)
attempt("who is there", call, nr["getsockopt"], 3, 1, 17, message, bytes(4))
attempt("shut down", call, nr["shutdown"], 3, 0)
""",
        tiers="ABC",
    ),
]

if platform.machine() == "x86_64":
    ATTACKS += [
        Attack(
            57,
            "call the kernel by the x32 numbers",
            "import ctypes\ndef f(x): return ctypes.CDLL(None).syscall(0x40000000 + 39)",
            "ABC",
            statuses=("crashed",),
        ),
        Attack(
            58,
            "call the kernel by the 32-bit gate",
            """
import ctypes, mmap
def f(x):
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()
""",
            "ABC",
            statuses=("crashed",),
        ),
    ]
