"""The benchmark for a GPU where there is none: it skips, and at toy size it does everything."""

import subprocess
import sys

import pytest
import torch


def run(*options):
    command = [sys.executable, "-m", "tests.benchmarks.gpu", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_it_skips_without_a_gpu():
    assert run().startswith("no GPU: skipped")


@pytest.mark.slow
def test_every_part_runs_on_the_cpu():
    out = run("--cpu")
    for part in ("utilities", "agreement", "step, toy, LoRA", "step, toy, full", "memory"):
        assert part in out
    assert "left out" not in out
