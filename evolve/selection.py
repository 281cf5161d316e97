"""Which programs become parents: a seeded mixture of three rules.

- ``dirichlet``: draw w ~ Dir(alpha), draw a cell by a softmax over the w-scores of the cells' best
  programs, take that program. Search then climbs the same expectation that training does.
- ``lexicase``: epsilon-lexicase in its semi-dynamic form (La Cava et al. 2019, "A probabilistic
  and multi-objective analysis of lexicase selection and epsilon-lexicase selection", arXiv
  1709.05394) over all programs held: objectives in random order, each keeping those within its
  median absolute deviation of the best among the survivors. Blind to the scale of rewards.
- ``uniform``: a cell, then one of its programs, each with equal chances.

Every pick carries the probability with which it was made, see :attr:`Pick.probability`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from evolve.archive import Archive
from evolve.members import Members

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# What a rule returns: n parents (as indices into the members), their probabilities, and the weights
# (n, k).
_Chosen = tuple[Ints, Floats, Floats]

ARMS = ("dirichlet", "lexicase", "uniform")

# Scores of this many programs and weights at once: 8 MiB.
_BLOCK = 2**20


@dataclass(frozen=True)
class Mixture:
    """Shares of the three rules; they are normalised.

    Raises:
        ValueError: If a share is negative or not finite, or if all are 0.
    """

    dirichlet: float = 0.5
    lexicase: float = 0.3
    uniform: float = 0.2

    def __post_init__(self) -> None:
        shares = astuple(self)
        if not all(math.isfinite(share) and share >= 0 for share in shares) or not sum(shares):
            raise ValueError(
                f"mixture {shares}: non-negative finite shares are needed, not all of them 0"
            )


@dataclass(frozen=True)
class Pick:
    """A parent and how it was chosen.

    Attributes:
        parent: Its id.
        cell: Its cell.
        island: The island it was chosen on.
        weights: (k,) the trade-off under which it was chosen, on the simplex: the draw w, the unit
            vector of the first objective that lexicase looked at, or the uniform weight.
        arm: The rule: ``"dirichlet"``, ``"lexicase"`` or ``"uniform"``.
        probability: Of this rule and then this parent, in (0, 1]. Exact for ``uniform``; for
            ``dirichlet`` given the drawn w; for ``lexicase`` given the drawn order of objectives
            (one over the number of survivors).
        inspirations: Ids of programs from other cells, no two from the same one.
    """

    parent: int
    cell: int
    island: int
    weights: tuple[float, ...]
    arm: str
    probability: float
    inspirations: tuple[int, ...]


def choose(
    archive: Archive,
    island: int,
    rng: np.random.Generator,
    n: int,
    mixture: Mixture,
    *,
    alpha: float = 1.0,
    temperature: float = 0.5,
    inspirations: int = 1,
) -> list[Pick]:
    """Return n picks, independent of each other.

    Args:
        archive: Where from; it does not change.
        island: Its number, passed on to the picks.
        rng: Draws everything; equal archives and generators give equal picks.
        n: Number of picks.
        mixture: Shares of the rules.
        alpha: Concentration of the drawn weights, positive.
        temperature: Of the softmax over cells, in standard deviations of the cells' w-scores:
            positive; towards 0 the best cell alone is chosen, infinity makes all cells equal.
        inspirations: How many inspirations a pick gets; fewer if fewer other cells are occupied.

    Raises:
        ValueError: If the archive is empty or a number is out of range.
    """
    for name, value in (("alpha", alpha), ("temperature", temperature)):
        if not value > 0:
            raise ValueError(f"{name} is {value}, a positive number is needed")
    if n < 0 or inspirations < 0:
        raise ValueError(f"n is {n} and inspirations {inspirations}, 0 or more is needed")
    members = archive.members()
    if not len(members.ids):
        raise ValueError("the archive is empty, there is no parent to choose")
    shares = np.array(astuple(mixture)) / sum(astuple(mixture))
    arms = rng.choice(len(ARMS), size=n, p=shares)
    rules: tuple[Callable[[int], _Chosen], ...] = (
        lambda count: _dirichlet(members, rng, count, alpha, temperature),
        lambda count: _lexicase(members, rng, count),
        lambda count: _uniform(members, rng, count),
    )
    parents, odds, weights = np.empty(n, dtype=np.int64), np.empty(n), np.empty((n, members.k))
    for arm, rule in enumerate(rules):
        picks = np.flatnonzero(arms == arm)
        if len(picks):
            parents[picks], odds[picks], weights[picks] = rule(len(picks))
    others = _others(members, rng, members.place[parents], inspirations)
    cells = members.cells[members.place[parents]]
    return [
        Pick(parent, cell, island, tuple(w), ARMS[arm], probability, tuple(ids))
        for parent, cell, w, arm, probability, ids in zip(
            members.ids[parents].tolist(),
            cells.tolist(),
            weights.tolist(),
            arms.tolist(),
            (shares[arms] * odds).tolist(),
            members.ids[others].tolist(),
            strict=True,
        )
    ]


def _dirichlet(
    members: Members, rng: np.random.Generator, n: int, alpha: float, temperature: float
) -> _Chosen:
    weights = rng.dirichlet(np.full(members.k, alpha), n)
    chances = rng.random(n)
    parents, odds = np.empty(n, dtype=np.int64), np.empty(n)
    step = max(1, _BLOCK // len(members.ids))
    for block in range(0, n, step):
        tops = members.layers.best(weights[block : block + step])
        scale = temperature * tops.std(axis=1, keepdims=True)
        tops -= tops.max(axis=1, keepdims=True)
        # Equal scores everywhere make all cells equal.
        likelihood = np.exp(np.divide(tops, scale, out=np.zeros_like(tops), where=scale > 0))
        up_to = np.cumsum(likelihood, axis=1)
        for row in range(len(tops)):
            i = block + row
            total = up_to[row, -1]
            # The last cell also takes a chance that rounding has pushed to the total itself.
            place = int(np.searchsorted(up_to[row, :-1], chances[i] * total, side="right"))
            cell = members.layers.order[place]
            first, last = members.starts[cell], members.starts[cell + 1]
            parents[i] = first + (members.rewards[first:last] @ weights[i]).argmax()
            odds[i] = likelihood[row, place] / total
    return parents, odds, weights


def _lexicase(members: Members, rng: np.random.Generator, n: int) -> _Chosen:
    orders = rng.permuted(np.tile(np.arange(members.k), (n, 1)), axis=1)
    survivors = []
    for first, *rest in orders.tolist():
        pool = members.elites[first]
        for objective in rest:
            if len(pool) == 1:
                break
            values = members.columns[objective][pool]
            pool = pool[values >= values.max() - members.spread[objective]]
        survivors.append(pool)
    sizes = np.array([len(pool) for pool in survivors])
    lucky = rng.integers(0, sizes)
    parents = np.array([pool[i] for pool, i in zip(survivors, lucky.tolist(), strict=True)])
    return parents, 1.0 / sizes, np.eye(members.k)[orders[:, 0]]


def _uniform(members: Members, rng: np.random.Generator, n: int) -> _Chosen:
    counts = np.diff(members.starts)
    cells = rng.integers(0, len(counts), n)
    parents = members.starts[cells] + rng.integers(0, counts[cells])
    return (
        parents,
        1.0 / (len(counts) * counts[cells]),
        np.full((n, members.k), 1.0 / members.k),
    )


def _others(members: Members, rng: np.random.Generator, own: Ints, wanted: int) -> Ints:
    """Return members (n, m), m <= ``wanted``: in a row all from different cells, not its own."""
    counts = np.diff(members.starts)
    n_others = len(counts) - 1
    m = min(wanted, n_others)
    # Floyd's sampling without replacement: step j draws from 0..j and takes j itself on a repeat.
    steps = np.arange(n_others - m, n_others)
    cells = rng.integers(0, steps + 1, size=(len(own), m))
    for column, j in enumerate(steps.tolist()):
        repeated = (cells[:, :column] == cells[:, column, None]).any(axis=1)
        cells[repeated, column] = j
    # Numbers count the other cells only, so those from its own cell on move up by one.
    cells += cells >= own[:, None]
    return np.asarray(members.starts[cells] + rng.integers(0, counts[cells]))
