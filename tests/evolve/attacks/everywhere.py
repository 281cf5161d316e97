"""Runs the attacks in every tier, as the present user and, from root, as an ordinary one.

``python -m tests.evolve.attacks.everywhere SECURITY.md`` runs all of them and writes the outcome
into that file.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.evolve.attacks import Attack
from tests.evolve.attacks.suite import ATTACKS, Result

ROOT = Path(__file__).parents[3]
ORDINARY = 54321
BEGIN, END = "<!-- attacks: begin -->", "<!-- attacks: end -->"


@dataclass(frozen=True)
class Setting:
    """Who runs the campaign, and the tier of its workers."""

    user: str
    tier: str


#: D is where nobody should run model-written code; only what is harmless there is tried.
SETTINGS = [Setting(user, tier) for user in ("root", "ordinary") for tier in "ABC"] + [
    Setting("ordinary", "D")
]


@dataclass(frozen=True)
class Outcome:
    """The results of one setting, or the reason why there are none."""

    results: tuple[Result, ...]
    missing: str

    def of(self, attack: Attack) -> Result | None:
        """The result of one attack; None if it is not run in this setting."""
        found = [r for r in self.results if (r.number, r.name) == (attack.number, attack.name)]
        return found[0] if found else None


def run_all() -> dict[Setting, Outcome]:
    """Run every attack in every setting, two settings at a time. Takes about a minute."""
    with ThreadPoolExecutor(2) as executor:
        return dict(zip(SETTINGS, executor.map(run_setting, SETTINGS), strict=True))


def run_setting(setting: Setting, choice: str = "all") -> Outcome:
    """Run the attacks in one setting.

    Args:
        setting: Who runs them, and the tier.
        choice: ``"all"`` of them, or ``"few"``, see :func:`tests.evolve.attacks.suite.chosen`.
    """
    root = os.geteuid() == 0
    if setting.user == "root" and not root:
        return Outcome((), "the tests do not run as root")
    if not root or setting.user == "root":
        outcome = _suite(setting.tier, choice, sys.executable, ROOT, None)
        if not root or "interpreter is not readable" not in outcome.missing:
            return outcome
    # The checkout and its interpreter may lie where no other user can read: a copy of the one, and
    # the system's for the other.
    with tempfile.TemporaryDirectory(prefix="evolve-copy-") as folder:
        for part in ("evolve", "tests/evolve/attacks", "tests/evolve/workers.py"):
            source, target = ROOT / part, Path(folder) / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        for path in [Path(folder), *Path(folder).rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        python = _readable_python(folder)
        if python is None:
            return Outcome((), "no interpreter from 3.11 on is readable for an ordinary user")
        user = None if setting.user == "root" else ORDINARY
        return _suite(setting.tier, choice, python, Path(folder), user)


def _readable_python(folder: str) -> str | None:
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        test = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            done = subprocess.run(
                test, user=ORDINARY, group=ORDINARY, extra_groups=[], cwd=folder, check=False
            )
        except (PermissionError, FileNotFoundError):
            continue
        if done.returncode == 0:
            return python
    return None


def _suite(tier: str, choice: str, python: str, folder: Path, user: int | None) -> Outcome:
    identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    done = subprocess.run(
        [python, "-m", "tests.evolve.attacks.suite", tier, choice],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        **identity,
    )
    if done.returncode and not done.stdout and "does not give tier" in done.stderr:
        return Outcome((), done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return Outcome(tuple(Result(**json.loads(line)) for line in done.stdout.splitlines()), "")


def table(outcomes: dict[Setting, Outcome]) -> str:
    """The outcome of every attack as a table in Markdown."""
    head = ["#", "attack", *(f"{s.tier}, {s.user}" for s in SETTINGS)]
    lines = [_row(head), _row(["---"] * len(head))]
    for attack in ATTACKS:
        cells = [_cell(attack, setting, outcomes[setting]) for setting in SETTINGS]
        lines.append(_row([str(attack.number), attack.name, *cells]))
    return "\n".join(lines)


def _cell(attack: Attack, setting: Setting, outcome: Outcome) -> str:
    result = outcome.of(attack)
    if outcome.missing:
        return "no such tier"
    if result is None:
        return "" if setting.tier in attack.tiers + attack.leaks else "not promised"
    if result.fault:
        return f"**GOT THROUGH** ({result.fault})"
    return "**gets through**" if setting.tier in attack.leaks else attack.shown or result.status


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def main(path: Path) -> None:
    """Write the table between the marks in a file."""
    before, rest = path.read_text().split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{table(run_all())}\n{END}{after}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
