"""The rules of the house that no single module can keep: who imports whom, and who draws."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    path for name in ("evolve", "vpo", "tasks") for path in (ROOT / name).rglob("*.py")
)
HEAVY = {"torch", "transformers", "matplotlib", "peft", "scipy", "networkx", "httpx2"}


def imports_of(path):
    """The modules that a file names in import statements, at any depth."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def of_package(package):
    return [path for path in MODULES if path.relative_to(ROOT).parts[0] == package]


def test_vpo_knows_neither_the_search_nor_the_tasks():
    for path in of_package("vpo"):
        assert not {name.split(".")[0] for name in imports_of(path)} & {"evolve", "tasks"}, path


def test_tasks_know_the_task_contract_alone():
    for path in of_package("tasks"):
        ours = {n for n in imports_of(path) if n.split(".")[0] in ("evolve", "vpo")}
        assert ours <= {"evolve.task"}, path


def test_one_module_of_the_search_touches_the_learning_library():
    users = [path for path in of_package("evolve") if any(n[:3] == "vpo" for n in imports_of(path))]
    assert {path.parent.name for path in users} == {"learning"}


def test_nobody_draws_from_a_global_generator():
    drawn = re.compile(
        r"(?<![\w.])random\.(?!Random\b)[a-z]+\(|np\.random\.(?!Generator|default_rng|SeedSequence)"
        r"|torch\.manual_seed|torch\.(rand|randn|randint|randperm|multinomial)\((?!.*generator)"
    )
    # The sandbox's child seeds the candidate's own global generators: there they are the point.
    for path in (path for path in MODULES if path.parent.name != "sandbox"):
        lines = path.read_text().splitlines()
        for number, (before, line) in enumerate(zip(["", *lines], lines, strict=False), start=1):
            # Libraries that initialise from the global generator get one of their own, for a while.
            assert "fork_rng" in before or not drawn.search(line), f"{path}:{number}: {line}"


def test_a_file_holds_one_idea():
    for path in MODULES:
        assert len(path.read_text().splitlines()) <= 420, path


@pytest.mark.parametrize(
    "entry",
    ["import evolve", "import vpo", "from evolve.cli import app", "from vpo.cli import app"],
)
def test_entry_points_load_nothing_heavy(entry):
    code = f"{entry}\nimport sys\nprint(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(out.stdout.split())
