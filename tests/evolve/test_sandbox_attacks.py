"""Every attack in every tier of this machine, as root and as an ordinary user."""

import math
import os
from fractions import Fraction
from pathlib import Path

import pytest

from evolve.evaluate import evaluate
from evolve.sandbox import Pool, Status, quick_check
from evolve.sandbox.tiers import choose, probe
from evolve.task import Case, Descriptor, Invalid, Objective, Task
from tests.evolve.attacks.everywhere import BEGIN, END, ROOT, SETTINGS, run_all
from tests.evolve.attacks.suite import ATTACKS

RUNNER = "def run(program, given):\n    return program.f(given)\n"


def name(value):
    return f"{value.number}-{value.name}".replace(" ", "-")[:40]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("attack", ATTACKS, ids=name)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s.user}-{s.tier}")
def test_the_attack_fails_and_leaves_nothing(setting, attack):
    if setting.tier not in attack.tiers + attack.leaks:
        pytest.skip("not tried in this tier, which does not promise to stop it")
    outcome = run_all()[setting]
    if outcome.missing:
        pytest.skip(outcome.missing)
    result = outcome.of(attack)
    if result is None:
        assert "numpy" in attack.source
        pytest.skip("the interpreter of this user has no numpy")
    assert not result.fault, result


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
