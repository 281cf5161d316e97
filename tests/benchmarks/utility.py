"""Time for advantages whose noise is at most 1e-2: this library against a plain loop.

    python -m tests.benchmarks.utility

The plain loop is what one writes from the formula: for each rollout in a list one matrix product
with shared Dirichlet draws, a maximum and a mean, then the group's z-scores. Both sides get the
fewest weights (a power of two) that reach the same accuracy: the root-mean-square error of an
advantage, over reruns with fresh weights, against a reference with many weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from vpo.advantages import compute_advantages

NOISE = 1e-2
RERUNS = 4
#: Groups on which the noise is measured.
SAMPLE = 16
#: groups, rollouts, answers, objectives
CASES = ((128, 8, 3, 4), (512, 16, 8, 16))


def plain(rewards: list[np.ndarray], size: int, n_weights: int, seed: int) -> np.ndarray:
    """The advantages of rollouts in consecutive groups, rollout by rollout."""
    rng = np.random.default_rng(seed)
    advantages = []
    for start in range(0, len(rewards), size):
        group = rewards[start : start + size]
        weights = rng.dirichlet(np.ones(group[0].shape[1]), n_weights)
        scores = [float((matrix @ weights.T).max(axis=0).mean()) for matrix in group]
        mean, std = np.mean(scores), np.std(scores)
        advantages += [0.0 if std < 1e-6 else (score - mean) / (std + 1e-6) for score in scores]
    return np.array(advantages)


def ours(rewards: list[np.ndarray], size: int, n_weights: int, seed: int) -> np.ndarray:
    ids = np.repeat(np.arange(len(rewards) // size), size)
    return compute_advantages(rewards, ids, n_weights=n_weights, seed=seed).advantages


Method = Callable[[list[np.ndarray], int, int, int], np.ndarray]


def fewest(method: Method, rewards: list[np.ndarray], size: int, truth: np.ndarray) -> int:
    """Return the fewest weights with which the method's noise is small enough."""
    n_weights = 128
    while True:
        errors = [method(rewards, size, n_weights, seed) - truth for seed in range(1, 1 + RERUNS)]
        if np.sqrt(np.mean(np.square(errors))) <= NOISE:
            return n_weights
        n_weights *= 2


def seconds(method: Method, rewards: list[np.ndarray], size: int, n_weights: int) -> float:
    """Return the best of up to five runs, each with fresh weights, within some ten seconds."""
    times: list[float] = []
    while len(times) < 5 and sum(times) < 10.0:
        seed = 100 + len(times)
        start = time.perf_counter()
        method(rewards, size, n_weights, seed)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print one line a case: time of both, weights of both, ratio."""
    for groups, size, m, k in CASES:
        rng = np.random.default_rng(0)
        rewards = list(rng.random((groups * size, m, k)))
        sample = rewards[: SAMPLE * size]
        truth = ours(sample, size, 1 << 16, 0)
        line = f"{groups} groups x {size} rollouts, m={m}, k={k}:"
        cost = []
        for name, method in (("plain loop", plain), ("vpo", ours)):
            n_weights = fewest(method, sample, size, truth)
            cost.append(seconds(method, rewards, size, n_weights))
            line += f" {name} {1e3 * cost[-1]:.1f} ms ({n_weights} weights),"
        print(f"{line} ratio {cost[0] / cost[1]:.0f}x")


if __name__ == "__main__":
    main()
