"""Attacks on files: reading what the judge knows, changing what others own, leaving traces."""

from tests.evolve.attacks import deeds

ATTACKS = [
    deeds(
        1,
        "open the answers file",
        """
attempt("read", lambda: open(x["answers"]).read())
def from_folder():
    os.open("answers", os.O_RDONLY, dir_fd=os.open(x["folder"], os.O_PATH))
attempt("open by folder", from_folder)
""",
    ),
    deeds(
        2,
        "read system and home files",
        """
for path in ["/etc/passwd", "/etc/shadow", "/etc/hostname", "/proc/cmdline", "/sys/kernel/mm"]:
    attempt(path, lambda: (os.listdir if os.path.isdir(path) else open)(path))
for path in x["secrets"]:
    attempt(path, lambda: open(path).read())
attempt("home", lambda: os.listdir(x["home"]))
attempt("root", lambda: os.listdir("/"))
""",
    ),
    deeds(
        3,
        "append to, truncate, remove or rename a file outside",
        """
victim = x["victim"]
attempt("append", lambda: open(victim, "a").write("x"))
attempt("empty", lambda: open(victim, "w"))
attempt("truncate", os.truncate, victim, 0)
attempt("remove", os.remove, victim)
attempt("rename", os.rename, victim, victim + ".gone")
attempt("rename folder", os.rename, x["folder"], x["folder"] + ".gone")
attempt("make folder", os.mkdir, x["folder"] + "/made")
""",
    ),
    deeds(
        4,
        "chmod, chown, utime, setxattr a file outside",
        """
victim = x["victim"]
attempt("chmod", os.chmod, victim, 0o600)
attempt("chmod folder", os.chmod, x["folder"], 0o700)
attempt("fchmodat2", call, 452, -100, victim.encode(), 0o600, 0)
attempt("chown", os.chown, victim, os.getuid(), os.getgid())
attempt("utime", os.utime, victim, (1, 1))
attempt("setxattr", os.setxattr, victim, "user.x", b"1")
""",
        tiers="ABC",
    ),
    deeds(
        5,
        "stat a hidden path",
        """
attempt("stat", os.stat, x["answers"])
attempt("exists", lambda: need(os.path.exists(x["answers"])))
attempt("readlink", os.readlink, x["link"])
""",
        tiers="A",
        leaks="BC",
    ),
    deeds(
        6,
        "link to the answers, then read",
        """
for place in ["/tmp", "/dev/shm", ".", x["folder"]]:
    for how in (os.symlink, os.link):
        path = os.path.join(place, how.__name__)
        attempt(f"{how.__name__} in {place}", how, x["answers"], path)
        attempt(f"read {how.__name__} in {place}", lambda: open(path).read())
attempt("read the link there", lambda: open(x["link"]).read())
""",
    ),
    deeds(
        7,
        "find API keys in environments",
        """
import glob
key = x["key"][::-1]
attempt("own environment", lambda: need(key in str(os.environ)))
attempt("/proc/self", lambda: need(key.encode() in open("/proc/self/environ", "rb").read()))
attempt("parent", lambda: open(f"/proc/{os.getppid()}/environ", "rb").read())
attempt("driver", lambda: open(f"/proc/{x['pid']}/environ", "rb").read())
attempt("any", lambda: need(glob.glob("/proc/[0-9]*/environ")))
attempt("arguments", lambda: need(key in str(sys.orig_argv)))
""",
    ),
    deeds(
        8,
        "open memory and descriptors of other processes",
        """
for pid in (os.getppid(), x["pid"], 1, "self"):
    attempt(f"mem {pid}", open, f"/proc/{pid}/mem", "rb")
    attempt(f"maps {pid}", open, f"/proc/{pid}/maps", "rb")
    attempt(f"fd {pid}", os.listdir, f"/proc/{pid}/fd")
attempt("list", os.listdir, "/proc")
""",
    ),
    deeds(
        17,
        "fill the disk: one file of 64 MiB, 2,000 small ones",
        """
def large(place):
    with open(place + "/large", "wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
def many(place):
    for i in range(2000):
        open(f"{place}/small{i}", "w").close()
for place in ["/tmp", "/var/tmp", "/dev/shm", ".", "/", x["folder"], x["home"]]:
    attempt("large in " + place, large, place)
    attempt("many in " + place, many, place)
attempt("tempfile", lambda: __import__("tempfile").NamedTemporaryFile())
""",
    ),
    deeds(
        34,
        "plant numpy.py, a .pth file, sitecustomize, __pycache__",
        """
for place in {".", "/", *sys.path, os.path.dirname(os.__file__), *x["packages"]}:
    for name in ("numpy.py", "evil.pth", "sitecustomize.py"):
        attempt(f"{name} in {place}", open, os.path.join(place, name), "w")
    attempt(f"cache in {place}", os.mkdir, os.path.join(place, "__pycache__x"))
""",
    ),
    deeds(
        36,
        "pass state on by shared memory and queues",
        """
nr = x["calls"]
attempt("shmget", call, nr["shmget"], 4711, 4096, 0o1666)
attempt("semget", call, nr["semget"], 4711, 1, 0o1666)
attempt("msgget", call, nr["msgget"], 4711, 0o1666)
attempt("mq_open", call, nr["mq_open"], b"evolve-attack", os.O_CREAT | os.O_RDWR, 0o666, None)
attempt("memfd", lambda: os.memfd_create("x"))
attempt("/dev/shm", open, "/dev/shm/evolve-attack", "w")
attempt("keyring", call, nr["add_key"], b"user", b"evolve-attack", b"x", 1, -4)
""",
    ),
    deeds(
        39,
        "reach files by handle",
        """
nr = x["calls"]
buffer = ctypes.create_string_buffer(b"\\x80\\0\\0\\0", 256)
mount = ctypes.c_int()
attempt("to handle", call, nr["name_to_handle_at"], -100, b"/etc", buffer, ctypes.byref(mount), 0)
attempt("by handle", call, nr["open_by_handle_at"], 3, buffer, 0)
""",
        tiers="ABC",
    ),
    deeds(
        42,
        "write to cgroups and to /proc/sys",
        """
def group(path):
    os.mkdir(path)
    os.rmdir(path)
for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory"):
    attempt(path, group, path + "/evolve-attack")
attempt("sysctl", open, "/proc/sys/kernel/core_pattern", "r+")
attempt("oom", open, "/proc/self/oom_score_adj", "r+")
""",
    ),
    deeds(
        43,
        "type into the terminal",
        """
import fcntl
attempt("open", open, "/dev/tty", "r+")
attempt("console", open, "/dev/console", "r+")
for fd in range(4):
    attempt(f"TIOCSTI on {fd}", fcntl.ioctl, fd, 0x5412, b"x")
""",
    ),
    deeds(
        50,
        "get out by descriptors, /proc/self/root and ..",
        """
import stat
def folder(fd):
    need(stat.S_ISDIR(os.fstat(fd).st_mode))
for fd in range(64):
    attempt(f"folder {fd}", folder, fd)
for path in ("/proc/self/root/etc/passwd", "/proc/1/root/etc/passwd", "/proc/self/cwd/etc/passwd"):
    attempt(path, open, path)
attempt("up", lambda: open("../" * 20 + "etc/passwd"))
""",
    ),
    deeds(
        51,
        "watch files of others",
        """
nr = x["calls"]
attempt("inotify", call, nr["inotify_init1"], 0)
attempt("fanotify", call, nr["fanotify_init"], 0, 0)
""",
        tiers="ABC",
    ),
    deeds(
        52,
        "read the judge's code",
        """
for path in x["judges"]:
    attempt(path, open, path)
attempt("import", lambda: __import__("evolve.evaluate"))
attempt("import tasks", lambda: __import__("tasks"))
""",
    ),
]
