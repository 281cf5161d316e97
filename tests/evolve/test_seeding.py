"""Streams are addressed by name: equal paths are equal streams, on every machine."""

import subprocess
import sys

from evolve.seeding import rng_for, seed_for


def test_equal_paths_give_equal_streams_and_others_differ():
    draws = {path: rng_for(1, *path).random() for path in [("a", 1), ("a", 2), ("b", 1), (1, "a")]}
    assert len(set(draws.values())) == 4
    assert rng_for(1, "a", 1).random() == draws["a", 1]
    assert rng_for(2, "a", 1).random() != draws["a", 1]


def test_streams_do_not_depend_on_the_salt_of_the_process():
    code = "from evolve.seeding import seed_for; print(seed_for(3, 'policy', 7))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in "123"
    }
    assert runs == {f"{seed_for(3, 'policy', 7)}\n"}


def test_seeds_fit_in_63_bits():
    assert all(0 <= seed_for(0, "x", i) < 2**63 for i in range(1000))
