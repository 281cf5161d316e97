"""Runs the attacks in one tier and tells what became of each.

``python -m tests.evolve.attacks.suite TIER [few]`` prints one JSON line an attack. It runs in a
process of its own, the victim: this holds the secrets, listens on the network, owns the files, and
its workers are counted after every attack.
"""

import importlib.util
import json
import os
import platform
import secrets
import socket
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evolve.sandbox import Pool
from evolve.sandbox.syscalls import denied_calls, supported
from evolve.sandbox.tiers import layers, probe
from evolve.task import Limits
from tests.evolve.attacks import Attack, files, processes, protocol, resources
from tests.evolve.workers import alive, descendants

RUNNER = "def run(program, given):\n    return program.f(given)\n"
LIMITS = {
    "long": Limits(wall_s=30.0, cpu_s=0.3, memory_mb=512, output_kb=64),
    "short": Limits(wall_s=0.5, cpu_s=0.3, memory_mb=512, output_kb=64),
}
ATTACKS: list[Attack] = sorted(
    files.ATTACKS + processes.ATTACKS + resources.ATTACKS + protocol.ATTACKS,
    key=lambda attack: attack.number,
)


#: Of the attacks that no layer of isolation decides, those that every setting tries.
COMMON = frozenset([16, 22, 23, 25, 26, 28, 29, 31, 33, 44])


def chosen(choice: str) -> list[Attack]:
    """All attacks, or few: those that the layers decide, and the quickest of each other kind."""
    if choice == "all":
        return ATTACKS
    first = {attack.number: attack for attack in reversed(ATTACKS) if attack.tiers == "ABCD"}
    return [
        attack
        for attack in ATTACKS
        if attack.tiers != "ABCD" or (attack.number in COMMON and attack is first[attack.number])
    ]


@dataclass
class Arena:
    """What the attacks are after."""

    folder: Path
    key: str = "key-" + secrets.token_hex(16)
    hidden: str = "answer-" + secrets.token_hex(16)
    greeted: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Nothing but the sandbox stands in the way of anybody.
        self.folder.chmod(0o777)
        for name in ("answers", "victim", ".netrc", "id_rsa"):
            (self.folder / name).write_text(self.hidden)
            (self.folder / name).chmod(0o666)
        (self.folder / "link").symlink_to(self.folder / "answers")
        os.environ["EVOLVE_ATTACK_API_KEY"] = self.key
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.abstract = "evolve-attack-" + secrets.token_hex(4)
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind("\0" + self.abstract)
        self.unix.listen()
        for listener in (self.tcp, self.unix):
            threading.Thread(target=self._listen, args=(listener,), daemon=True).start()
        self.before = self.state()

    def _listen(self, listener: socket.socket) -> None:
        while True:
            self.greeted.append(listener.accept()[0].recv(100))

    def given(self) -> dict[str, object]:
        """What an attack is told; secrets backwards, so that knowing is not finding."""
        packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        judges = [
            importlib.util.find_spec(name).origin for name in ("evolve.evaluate", "evolve.task")
        ]
        return {
            "answers": str(self.folder / "answers"),
            "victim": str(self.folder / "victim"),
            "link": str(self.folder / "link"),
            "secrets": [str(self.folder / name) for name in (".netrc", "id_rsa")],
            "folder": str(self.folder),
            "home": str(Path("~").expanduser()),
            "packages": sorted(packages),
            "judges": judges,
            "key": self.key[::-1],
            "hidden": self.hidden[::-1],
            "pid": os.getpid(),
            "port": self.port,
            "abstract": self.abstract,
            "calls": denied_calls(platform.machine()) if supported() else {},
        }

    def state(self) -> object:
        """Everything about the files that an attack could change."""
        names = sorted(path.name for path in self.folder.iterdir())
        stats = [(self.folder / name).lstat() for name in names]
        texts = [(self.folder / name).read_text() for name in names]
        facts = [(s.st_mode, s.st_uid, s.st_size, s.st_mtime_ns, s.st_nlink) for s in stats]
        here = self.folder.stat()
        places = [sorted(map(str, Path(p).glob("*evolve-attack*"))) for p in ("/tmp", "/dev/shm")]
        return names, facts, texts, (here.st_mode, here.st_mtime_ns), places


@dataclass(frozen=True)
class Result:
    """What became of an attack; ``fault`` is empty if it failed as it should."""

    number: int
    name: str
    tier: str
    status: str
    detail: str
    fault: str


def run_suite(tier: str, attacks: list[Attack]) -> Iterator[Result]:
    """Yield the result of each attack that may be run in ``tier``."""
    preload = ("json", "math") + (("numpy",) if importlib.util.find_spec("numpy") else ())
    with tempfile.TemporaryDirectory(prefix="arena-") as folder:
        arena = Arena(Path(folder))
        with (
            Pool(RUNNER, preload, LIMITS["long"], 1, tier=tier) as long,
            Pool(RUNNER, preload, LIMITS["short"], 1, tier=tier) as short,
        ):
            pools = {"long": long, "short": short}
            workers = set(descendants(os.getpid()))
            for attack in attacks:
                if tier not in attack.tiers + attack.leaks:
                    continue
                if "import numpy" in attack.source and "numpy" not in preload:
                    continue
                yield _run(attack, tier, pools[attack.wall], arena, workers)


def _run(attack: Attack, tier: str, pool: Pool, arena: Arena, workers: set[int]) -> Result:
    with pool.session(attack.source) as session:
        reply = session.call(arena.given())
        usage = session.close()
    fault = ""
    try:
        assert reply.status in attack.statuses, f"{reply.status}: {reply.detail}"
        if tier in attack.leaks:
            assert reply.output[0], "it no longer gets through: promise it"
        elif attack.check is not None:
            attack.check(reply)
        assert all(c.isprintable() or c in "\n\t" for c in reply.detail + usage.stderr_tail)
        _check_next(pool)
        strays = {pid for pid in descendants(os.getpid()) if alive(pid)} ^ workers
        assert not strays, f"processes came or went: {strays}"
        left = _processes_of(layers(tier, 0)["uid"])
        assert not left, f"processes of a candidate are left: {left}"
        assert arena.state() == arena.before, "a file has changed"
        assert not arena.greeted, f"a listener was reached: {arena.greeted}"
        assert not Path("core").exists()
    except AssertionError as error:
        fault = str(error) or "a check failed"
    return Result(attack.number, attack.name, tier, str(reply.status), reply.detail, fault)


def _check_next(pool: Pool) -> None:
    """The next program in the same worker must give the right answer."""
    honest = "import json, math\ndef f(x): return json.dumps([len(x), math.sqrt(sum(x)), x])"
    with pool.session(honest) as session:
        reply = session.call([9, 16])
    assert reply.output == "[2, 5.0, [9, 16]]", f"the next program ends with {reply}"


def _processes_of(uid: int | None) -> list[int]:
    """Processes of the user that a worker of root gives its candidates."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid == uid and alive(int(path.name)):
                found.append(int(path.name))
        except FileNotFoundError:
            continue
    return found


if __name__ == "__main__":
    found = probe(sys.argv[1])
    if not found.works:
        sys.exit(f"this machine does not give tier {found.tier}: {found.reason}")
    for result in run_suite(sys.argv[1], chosen(*sys.argv[2:] or ["all"])):
        print(json.dumps(result.__dict__), flush=True)
