"""Quadrature over preferences: nearly uniform weights on the simplex, and how to average over them.

The weights are a scrambled Sobol net taken to the simplex by stick breaking, which keeps its
strata; sorting uniforms, or a net whose index is tied to a coordinate, does not. A linear control
variate makes every function that is linear in the weights exact. Measured root-mean-square
errors of R at m = 3, rewards uniform: k = 4, 1024 weights 6e-5; k = 16, 1024 weights 4e-4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gamma, pi, sqrt

import numpy as np

from vpo.sets import Floats

#: Every estimate is the mean of this many replicates; their spread is its standard error.
REPLICATES = 8


@dataclass(frozen=True)
class Quadrature:
    """Weights, and the coefficients that turn values at the weights into replicates of the mean.

    Replicate b is the intercept of a least-squares fit of the values on the centred weights of
    block b. A block of a net is a net, but the blocks complement each other, so that the spread of
    the replicates overstates the error of their mean, some two to three times.

    Attributes:
        weights: (J, k) nodes.
        coefficients: (REPLICATES, J / REPLICATES), each row sums to 1.
    """

    weights: Floats
    coefficients: Floats

    def replicates(self, values: Floats) -> Floats:
        """Return (n, REPLICATES) estimates of the mean of ``values`` (n, J)."""
        blocks = values.reshape(len(values), REPLICATES, -1)
        means: Floats = np.einsum("nbj,bj->nb", blocks, self.coefficients)
        return means


#: One objective leaves nothing to weigh.
_ONE = Quadrature(np.ones((REPLICATES, 1)), np.ones((REPLICATES, 1)))


def dirichlet(k: int, alpha: float, n_weights: int, seed: int) -> Quadrature:
    """Return a quadrature for w ~ Dir(alpha, ..., alpha) on k objectives.

    Args:
        k: Number of objectives.
        alpha: Concentration, positive; 1 is uniform, towards 0 the corners, large the centre.
        n_weights: Number of nodes, a power of 2; raised where k asks for more.
        seed: Seed of the scramble; equal arguments give equal nodes.
    """
    return _ONE if k == 1 else _dirichlet(k, float(alpha), _enough(n_weights, k), seed)


def orthant(k: int, n_weights: int, seed: int) -> Quadrature:
    """Return a quadrature for directions uniform on the positive part of the unit sphere in R^k.

    Args:
        k: Number of objectives.
        n_weights: Number of nodes, a power of 2; raised where k asks for more.
        seed: Seed of the scramble.
    """
    return _ONE if k == 1 else _orthant(k, _enough(n_weights, k), seed)


def _enough(n_weights: int, k: int) -> int:
    if n_weights < REPLICATES or n_weights & (n_weights - 1):
        raise ValueError(f"n_weights is {n_weights}, a power of 2 from {REPLICATES} up is needed")
    # A block fits k coefficients: four nodes each keep the fit well conditioned.
    while n_weights < 4 * k * REPLICATES:
        n_weights *= 2
    return n_weights


@lru_cache(maxsize=64)
def _dirichlet(k: int, alpha: float, n_weights: int, seed: int) -> Quadrature:
    uniform = _sobol(k - 1, n_weights, seed)
    weights = np.empty((n_weights, k))
    rest = np.ones(n_weights)
    for i in range(k - 1):
        remaining = k - 1 - i
        if alpha == 1.0:
            piece = rest * (1.0 - (1.0 - uniform[:, i]) ** (1.0 / remaining))
        else:
            from scipy.special import betaincinv

            piece = rest * betaincinv(alpha, alpha * remaining, uniform[:, i])
        weights[:, i] = piece
        rest = rest - piece
    weights[:, -1] = rest
    # The last coordinate is a function of the others.
    return _fitted(weights, weights[:, :-1] - 1.0 / k)


@lru_cache(maxsize=64)
def _orthant(k: int, n_weights: int, seed: int) -> Quadrature:
    from scipy.special import ndtri

    # Scrambled Sobol points may hold 0, whose direction would be the origin.
    uniform = np.maximum(_sobol(k, n_weights, seed), 2.0**-31)
    normal = ndtri(0.5 + 0.5 * uniform)
    directions = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    mean = gamma(k / 2) / (sqrt(pi) * gamma((k + 1) / 2))
    return _fitted(directions, directions - mean)


def _sobol(dimensions: int, n: int, seed: int) -> Floats:
    # Half a second to import, and needed only where no closed form applies.
    from scipy.stats import qmc

    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(dimensions,)))
    points: Floats = qmc.Sobol(dimensions, scramble=True, rng=rng).random(n)
    return points


def _fitted(weights: Floats, centred: Floats) -> Quadrature:
    blocks = centred.reshape(REPLICATES, -1, centred.shape[1])
    design = np.concatenate([np.ones_like(blocks[:, :, :1]), blocks], axis=2)
    gram = design.transpose(0, 2, 1) @ design
    intercept = np.zeros((REPLICATES, gram.shape[1], 1))
    intercept[:, 0] = 1.0
    coefficients = (design @ np.linalg.solve(gram, intercept))[:, :, 0]
    weights.setflags(write=False)
    coefficients.setflags(write=False)
    return Quadrature(weights, coefficients)
