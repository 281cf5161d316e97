"""Attacks by programs that may start processes and write files: command tasks, tier A, in C.

``python -m tests.evolve.attacks.commands SECURITY.md`` runs them and writes the outcome into that
file.
"""

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from evolve.files import join_files
from evolve.sandbox import Pool, Status
from evolve.task import Command, Limits
from tests.evolve.workers import alive, descendants

BEGIN, END = "<!-- commands: begin -->", "<!-- commands: end -->"
COMMAND = Command(build=["gcc", "-O1", "-w", "-o", "main", "main.c"], run=["./main"])
LIMITS = Limits(wall_s=3, cpu_s=1, memory_mb=512, output_kb=64, scratch_mb=8, processes=16)
RUNNER = "def run(program, given):\n    return program(given)\n"
HEAD = """\
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
char folder[999], path[1999];
int port, driver;
void did(const char *what, int yes) { if (yes) { printf("%s\\n", what); fflush(stdout); } }
char *in(const char *name) { sprintf(path, "%s/%s", folder, name); return path; }
int main(void) {
    scanf("%s %d %d", folder, &port, &driver);
"""
HONEST = HEAD + '    printf("%d\\n", port);\n}\n'

#: Number, name, body. Every deed that succeeds is printed; none may.
DEEDS = [
    (
        74,
        "read the files of the host: passwd, shadow, home, the task, other processes",
        """
    did("passwd", open("/etc/passwd", 0) >= 0);
    did("shadow", open("/etc/shadow", 0) >= 0);
    did("root", open("/root", 0) >= 0);
    did("home", open("/home", 0) >= 0);
    did("var", open("/var", 0) >= 0);
    did("answers", open(in("answers"), 0) >= 0);
    did("stat", access(folder, 0) == 0);
    sprintf(path, "/proc/%d/environ", driver);
    did("environ", open(path, 0) >= 0);
    did("memory of the worker", open("/proc/1/mem", 0) >= 0);
    did("another program", system("cat /etc/passwd /etc/shadow 2>/dev/null") == 0);
""",
    ),
    (
        75,
        "write, remove, rename files of the host and of the system",
        """
    did("write", open(in("victim"), O_WRONLY | O_APPEND) >= 0);
    did("remove", unlink(in("victim")) == 0);
    did("create", open(in("new"), O_CREAT | O_WRONLY, 0666) >= 0);
    did("tool", open("/usr/bin/evolve-attack", O_CREAT | O_WRONLY, 0777) >= 0);
    did("include", open("/usr/include/evolve-attack.h", O_CREAT | O_WRONLY, 0666) >= 0);
    did("chmod", chmod("/usr/bin/gcc", 0) == 0);
    did("root folder", mkdir("/evolve-attack", 0777) == 0);
""",
    ),
    (
        76,
        "open the network: TCP, UDP, abstract sockets, through other programs",
        """
    struct sockaddr_in a = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}};
    int t = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0);
    did("tcp", t >= 0 && connect(t, (void *)&a, sizeof a) == 0);
    did("udp", u >= 0 && sendto(u, "hello", 5, 0, (void *)&a, sizeof a) == 5);
    did("unix", socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    did("netlink", socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
    sprintf(path, "bash -c 'echo hello > /dev/tcp/127.0.0.1/%d' 2>/dev/null", port);
    did("bash", system(path) == 0);
""",
    ),
    (
        77,
        "become root: programs with the set-user bit, namespaces, mounts, tracing",
        """
    did("unshare", unshare(CLONE_NEWUSER) == 0);
    did("mount", mount("none", "/scratch", "tmpfs", 0, 0) == 0);
    did("chroot", chroot("/scratch") == 0);
    did("ptrace", ptrace(PTRACE_SEIZE, getppid(), 0, 0) == 0);
    did("setuid", setuid(0) == 0);
    did("unshare program", system("unshare -r true 2>/dev/null") == 0);
    did("su", system("su -c true </dev/null >/dev/null 2>&1") == 0);
    did("clone", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0);
    did("device", mknod("/scratch/disk", S_IFBLK | 0600, 0x800) == 0);
""",
    ),
    (
        78,
        "signal the campaign, the worker and everything else",
        """
    did("driver", kill(driver, 0) == 0);
    for (int pid = 2; pid < 70000; pid++)
        if (pid != getpid() && pid != getppid() && kill(pid, 0) == 0) did("somebody", 1);
    kill(1, SIGKILL);
    kill(1, SIGSTOP);
    kill(1, SIGTERM);
""",
    ),
    (
        79,
        "find the channel to the judge",
        """
    for (int fd = 3; fd < 256; fd++) did("a descriptor", fcntl(fd, F_GETFD) >= 0);
    sprintf(path, "/proc/%d/fd/3", getppid());
    did("the runner's", open(path, O_RDWR) >= 0);
""",
    ),
]
#: Number, name, body, statuses. What counts is how it ends, and what is left.
ENDS = [
    (80, "fork bomb", "while (1) fork();", ("processes", "timeout_wall", "timeout_cpu")),
    (81, "fork bomb of processes that detach", "while (1) if (!fork()) setsid();",
     ("processes", "timeout_wall", "timeout_cpu")),
    (82, "daemon that outlives: two forks, a session of its own, signals ignored", """
    if (!fork()) {
        setsid();
        for (int i = 1; i < 32; i++) signal(i, SIG_IGN);
        if (fork()) _exit(0);
        close(0); close(1); close(2);
        sleep(1);
        close(open(in("daemon"), O_CREAT | O_WRONLY, 0666));
        while (1) pause();
    }
""", ("ok",)),
    (83, "fill the scratch disk", """
    int f = open("/scratch/big", O_CREAT | O_WRONLY, 0666);
    static char block[1 << 16];
    signal(SIGXFSZ, SIG_IGN);
    while (write(f, block, sizeof block) > 0) ;
""", ("ok",)),
    (84, "leave 3,000 files and folders that nobody may enter", """
    for (int i = 0; i < 3000; i++) {
        sprintf(path, "/scratch/f%d", i);
        if (i % 2) mkdir(path, 0); else close(open(path, O_CREAT | O_WRONLY, 0));
    }
    chmod("/scratch/program", 0);
""", ("ok",)),
    (85, "leave folders 3,000 deep", """
    for (int i = 0; i < 3000; i++) if (mkdir("d", 0777) || chdir("d")) break;
""", ("ok",)),
    (86, "leave links out of the folder for whoever clears it", """
    symlink(folder, "/scratch/out");
    mkdir("/scratch/d", 0777);
    symlink("/usr", "/scratch/d/usr");
    mkfifo("/scratch/pipe", 0666);
""", ("ok",)),
    (87, "write without end", "while (1) puts(\"flood\");", ("output_limit",)),
]  # fmt: skip


def run_attacks() -> Iterator[tuple[int, str, str, str]]:
    """Yield number, name, outcome in words and fault, empty if it failed as it should."""
    with (
        tempfile.TemporaryDirectory(prefix="arena-") as place,
        socket.create_server(("127.0.0.1", 0)) as listener,
        Pool(RUNNER, (), LIMITS, 1, tier="A", command=COMMAND) as pool,
    ):
        listener.setblocking(False)
        folder = Path(place)
        folder.chmod(0o777)
        for name in ("answers", "victim"):
            (folder / name).write_text("hidden")
            (folder / name).chmod(0o666)
        given = f"{folder} {listener.getsockname()[1]} {os.getpid()}\n"
        for number, name, body in DEEDS:
            status, out = _run(pool, body, given)
            fault = "" if (status, out) == ("ok", "") else f"{status}: {out}"
            yield number, name, "refused", fault or _left(pool, folder, listener, given)
        for number, name, body, statuses in ENDS:
            status, out = _run(pool, body, given)
            fault = "" if status in statuses else f"{status}: {out}"
            shown = "ended, nothing is left" if statuses == ("ok",) else status
            yield number, name, shown, fault or _left(pool, folder, listener, given)


def _run(pool: Pool, body: str, given: str) -> tuple[str, str]:
    with pool.session(join_files([("main.c", f"{HEAD}{body}\n    return 0;\n}}\n")])) as session:
        reply = session.call(given)
    return str(reply.status), reply.output["stdout"] if reply.output else reply.detail


def _left(pool: Pool, folder: Path, listener: socket.socket, given: str) -> str:
    """Return what an attack has changed or left, empty for nothing."""
    # Once more if the worker gave itself up over what it could not clear: evaluation does so too.
    for _ in range(2):
        with pool.session(join_files([("main.c", HONEST)])) as session:
            reply = session.call(given)
            inside = [pid for pid in descendants(os.getpid()) if alive(pid)]
        if reply.status != Status.SANDBOX_ERROR:
            break
    if reply.output is None or reply.output["stdout"].strip() != given.split()[1]:
        return f"the next program ends with {reply}"
    if len(inside) > 3:
        return f"processes are left: {inside}"
    names = sorted(path.name for path in folder.iterdir())
    texts = {(folder / name).read_text() for name in ("answers", "victim")}
    if (names, texts) != (["answers", "victim"], {"hidden"}):
        return f"files have changed: {names}, {texts}"
    try:
        listener.accept()
    except BlockingIOError:
        return ""
    return "the listener was reached"


def table() -> str:
    """The outcome of every attack as a table in Markdown."""
    rows = [
        f"| {number} | {name} | {f'**GOT THROUGH** ({fault})' if fault else shown} |"
        for number, name, shown, fault in run_attacks()
    ]
    return "\n".join(["| # | attack | outcome |", "| --- | --- | --- |", *rows])


def main(path: Path) -> None:
    """Write the table between the marks in a file."""
    before, rest = path.read_text().split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
