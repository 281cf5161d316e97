"""Named random streams: every draw of a run is a pure function of the seed and a path.

A stream is addressed, not consumed: the generator for round 7, slot 3 is the same whether the run
came there in one go or was killed and resumed, and whatever the number of workers.
"""

from __future__ import annotations

import hashlib

import numpy as np


def rng_for(seed: int, *path: int | str) -> np.random.Generator:
    """Return the generator addressed by ``seed`` and ``path``.

    Args:
        seed: The run's seed, a non-negative integer.
        path: Names and non-negative indices, for example ``("selection", round, slot)``.

    Returns:
        A fresh PCG64 generator; equal arguments give equal streams, on every platform.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_key(path)))


def seed_for(seed: int, *path: int | str) -> int:
    """Return a 63-bit seed addressed like :func:`rng_for`, for libraries with their own RNG."""
    state = np.random.SeedSequence(seed, spawn_key=_key(path)).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def _key(path: tuple[int | str, ...]) -> tuple[int, ...]:
    # hash() is salted per process; a digest of the name is not.
    return tuple(
        part
        if isinstance(part, int)
        else int.from_bytes(hashlib.blake2s(part.encode(), digest_size=4).digest())
        for part in path
    )
