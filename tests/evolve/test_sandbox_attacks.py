"""Attacks in every tier of this machine, as root and as an ordinary user.

Every attack runs in the strongest tier; in the others those that their layers decide, and few more.
All of them everywhere: ``python -m tests.evolve.attacks.everywhere SECURITY.md``.
"""

import math
import os
from fractions import Fraction
from pathlib import Path

import pytest

from evolve.evaluate import evaluate
from evolve.sandbox import Pool, Status, quick_check
from evolve.sandbox.tiers import choose, probe
from evolve.task import Case, Descriptor, Invalid, Objective, Task
from tests.evolve.attacks.everywhere import BEGIN, END, ROOT, SETTINGS, Setting, run_setting
from tests.evolve.attacks.suite import ATTACKS, chosen

RUNNER = "def run(program, given):\n    return program.f(given)\n"


def full():
    """The setting in which every attack is tried here: the present user, the strongest tier."""
    return Setting("ordinary" if os.geteuid() else "root", choose("D"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s.user}-{s.tier}")
def test_the_attacks_fail_and_leave_nothing(setting):
    choice = "all" if setting == full() else "few"
    outcome = run_setting(setting, choice)
    if outcome.missing:
        pytest.skip(outcome.missing)
    faults = [result for result in outcome.results if result.fault]
    assert not faults, faults
    tried = {(result.number, result.name) for result in outcome.results}
    for attack in chosen(choice):
        # Another interpreter than that of the tests may have no numpy.
        if setting.tier in attack.tiers + attack.leaks and "import numpy" not in attack.source:
            assert (attack.number, attack.name) in tried
    assert len(tried) >= 10


def test_the_list_is_complete():
    numbers = {attack.number for attack in ATTACKS} | {46, 48}
    assert set(range(1, 49)) <= numbers
    assert len(numbers - set(range(1, 49))) >= 12
    keys = [(attack.number, attack.name) for attack in ATTACKS]
    assert len(set(keys)) == len(keys)


def test_the_table_of_the_security_page_has_every_attack():
    rows = (ROOT / "SECURITY.md").read_text().split(BEGIN)[1].split(END)[0].strip().splitlines()
    written = [tuple(cell.strip() for cell in row.split("|")[1:3]) for row in rows[2:]]
    assert written == [(str(attack.number), attack.name) for attack in ATTACKS]
    assert "GOT THROUGH" not in "".join(rows)


@pytest.mark.skipif("CI" not in os.environ, reason="a developer's machine may give less")
def test_the_machine_of_the_tests_gives_a_safe_tier():
    assert choose("B") in ("A", "B")


def test_the_quick_check_finds_nothing():
    if not probe("B").works:
        pytest.skip(probe("B").reason)
    lines = list(quick_check())
    assert not any("GOT THROUGH" in line for line in lines)
    assert sum(line.startswith("  refused ") for line in lines) == 11
    assert lines[-1].startswith("a trivial program takes")


@pytest.fixture(scope="module")
def pool():
    with Pool(RUNNER, (), workers=1) as pool:
        yield pool


def test_knowing_the_visible_cases_by_heart_gains_nothing_on_the_others(pool):
    # Attack 46. The held-out case is an objective of its own, so the gap shows.
    task = Task(
        summary="Square a number.",
        objectives=[Objective("visible", 0, 1), Objective("held_out", 0, 1)],
        descriptors=[Descriptor("code_length", 0, 500)],
        cases=[Case("visible", 3, 9), Case("held_out", 1234, 1234**2)],
        score=lambda output, case: {case.name: float(output == case.hidden)},
    )
    assert evaluate(task, "def f(x): return {3: 9}.get(x, 0)", pool).rewards == (1.0, 0.0)
    assert evaluate(task, "def f(x): return x * x", pool).rewards == (1.0, 1.0)


def test_lower_precision_is_found_by_an_exact_check(pool):
    # Attack 48: a square root good to 7 digits where 15 are asked for.
    def score(output, case):
        error = abs(Fraction(output) ** 2 - case.given)
        if error > Fraction(1, 10**12):
            raise Invalid(f"off by {float(error):.1e}")
        return {"close": -math.log10(error) if error else 15.0}

    task = Task(
        summary="Root.",
        objectives=[Objective("close", 0, 16)],
        descriptors=[Descriptor("code_length", 0, 500)],
        cases=[Case("two", 2)],
        score=score,
    )
    rough = "import struct\ndef f(x): return struct.unpack('f', struct.pack('f', x**0.5))[0]"
    assert evaluate(task, rough, pool).status == Status.WRONG
    assert evaluate(task, "def f(x): return x**0.5", pool).status == Status.OK


def test_a_probe_leaves_nothing_behind():
    before = set(Path("/tmp").iterdir())
    probe.cache_clear()
    assert [probe(tier).tier for tier in "ABCD"] == list("ABCD")
    left = {path.name for path in set(Path("/tmp").iterdir()) - before}
    assert not [entry for entry in left if entry.startswith("evolve-probe-")]
