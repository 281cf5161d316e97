"""Every command of the README is run, in order, as a reader would; its Python is executed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


COMMANDS = [line[2:] for block in blocks("console") for line in block.splitlines()]


def environment():
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **dict.fromkeys(threads, "1"), "PATH": path}


def run(command, folder):
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_first_screen_names_both_make_targets():
    assert COMMANDS[:2] == ["make demo", "make test"]
    assert "pytest" in run("make -n test", ROOT)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("program", "left"), [("evolve", "runs/packing/plots"), ("vpo", "runs/words")]
)
def test_the_commands_work_in_the_order_in_which_they_stand(program, left, tmp_path):
    assert all(command.startswith(("evolve ", "vpo ")) for command in COMMANDS[2:])
    for command in COMMANDS[2:]:
        if command.startswith(f"{program} "):
            assert run(command, tmp_path).strip()
    assert (tmp_path / left).is_dir()


@pytest.mark.slow
def test_the_demo_learns_and_leaves_pictures(tmp_path):
    # The same as `make demo`, on a tenth of its budget and in rounds of half the size.
    options = f"--evaluations 210 --set search.prompts=4 --out {tmp_path}/demo"
    out = run(f'make demo DEMO="{options}"', ROOT)
    assert re.search(r"policy v0: valid \d", out)
    assert re.search(r"policy v[1-9]\d*: valid \d", out)
    assert list((tmp_path / "demo/plots").glob("*.png"))
    assert list((tmp_path / "demo/adapters").glob("v*/adapter_model.safetensors"))


def test_the_python_of_the_learning_section_runs():
    (code,) = [block for block in blocks("python") if "compute_advantages" in block]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.count(".") >= 16
