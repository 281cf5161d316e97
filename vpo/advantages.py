"""From reward matrices and group ids to advantages, one signature for every estimator.

Three steps, the same for all: what a rollout (or each of its answers) is worth; credit relative to
its group; scale. A group whose worths tie within the error of the quadrature carries no signal and
gets exactly 0: dividing by a standard deviation of pure noise would turn the noise into a
full-size gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from vpo import estimators
from vpo.bonus import Bonus
from vpo.expected import Preference, Scalarizer
from vpo.sets import Bools, Bucket, Floats, Ints, RewardBatch, by_shape
from vpo.simplex import REPLICATES
from vpo.utility import check_bounds, standard_error
from vpo.worth import Credit, Kind, mean_vectors, returns, scores_at_nodes, worth

Scale = Literal["std", "mean", "none", "batch"]

#: No standard deviation below this divides anything (as in the public code of arXiv 2605.22817).
MIN_STD = 1e-6


@dataclass(frozen=True)
class Estimator:
    """One row of :data:`ESTIMATORS`.

    Attributes:
        worth: What a rollout is worth, see :mod:`vpo.worth`; ``"vector"`` keeps the objectives
            apart, ``"iid"`` makes the group one set of independent members.
        centre: (g, n) worths and subset size -> (g, n) relative.
        linear: Whether a credit is the worth less a baseline, so that shares can be credited.
        scale: The published scale.
        ddof: 1 for the unbiased standard deviation, 0 for the population's.
        epsilon: Added to what divides.
    """

    worth: Literal["utility", "mean", "sum", "vector", "iid"]
    centre: Callable[[Floats, int], Floats]
    linear: bool
    scale: Scale
    ddof: int
    epsilon: float


def _mean(x: Floats, _: int) -> Floats:
    return estimators.less_mean(x)


def _others(x: Floats, _: int) -> Floats:
    return estimators.less_others(x)


def _max_at_k(x: Floats, subset: int) -> Floats:
    # Were the whole group the only subset, every weight would be equal.
    smaller = max(1, min(subset, x.shape[1] - 1))
    return estimators.less_mean(estimators.max_at_k(x, smaller))


def _entropic(x: Floats, _: int) -> Floats:
    return estimators.entropic(x)


def _as_is(x: Floats, _: int) -> Floats:
    return x


#: name -> how it is computed; ``scale`` and ``credit`` can be chosen in the call. Sources:
#: vpo arXiv 2605.22817; vpo_iid: PKPO's loo-1 (2505.15201) under every weight, averaged; grpo
#: 2402.03300; dr_grpo 2503.20783; rloo 2402.14740; gdpo 2601.05242; maxrl 2602.02710; max_at_k
#: 2510.23393; multi_rlvr 2603.24844; entropic 2601.16175.
ESTIMATORS: dict[str, Estimator] = {
    "vpo": Estimator("utility", _mean, True, "std", 0, 1e-6),
    "vpo_iid": Estimator("iid", _as_is, False, "std", 0, 1e-6),
    "grpo": Estimator("mean", _mean, True, "std", 1, 1e-6),
    "dr_grpo": Estimator("mean", _mean, True, "none", 1, 1e-6),
    "rloo": Estimator("mean", _others, True, "none", 1, 1e-6),
    "gdpo": Estimator("vector", _as_is, False, "batch", 1, 1e-4),
    "maxrl": Estimator("mean", _mean, True, "mean", 1, 1e-6),
    "max_at_k": Estimator("mean", _max_at_k, False, "std", 1, 1e-6),
    "multi_rlvr": Estimator("sum", _mean, True, "std", 1, 1e-6),
    "entropic": Estimator("mean", _entropic, False, "none", 1, 1e-6),
}


# What is logged as a rollout's worth where the estimator looks deeper.
_KIND: dict[str, Kind] = {
    "utility": "utility",
    "mean": "mean",
    "sum": "sum",
    "vector": "mean",
    "iid": "utility",
}


@dataclass(frozen=True)
class Advantages:
    """Advantages of n rollouts in g groups.

    Attributes:
        advantages: (n,) one for the whole rollout.
        answer_advantages: (n, m_max + 1) column j for the tokens of answer j, and column m_i for
            the tokens after the last of m_i answers; 0 beyond. With credit ``"rollout"`` every
            column repeats ``advantages``.
        n_answers: (n,) m_i.
        utilities: (n,) what the rollouts were compared by: U, mean reward, ...
        standard_errors: (n,) of ``utilities``, from the quadrature.
        groups: (g,) the distinct group ids, ascending.
        dead_groups: (g,) True where a group has no signal and got exactly 0.
        credit: The kind of credit.
        diagnostics: Name -> number, for logs.
    """

    advantages: Floats
    answer_advantages: Floats
    n_answers: Ints
    utilities: Floats
    standard_errors: Floats
    groups: npt.NDArray[Any]
    dead_groups: Bools
    credit: Credit
    diagnostics: dict[str, float]


def compute_advantages(
    reward_matrices: RewardBatch,
    group_ids: Sequence[int] | npt.NDArray[Any],
    *,
    estimator: str = "vpo",
    references: RewardBatch | None = None,
    credit: Credit = "rollout",
    scale: Scale | None = None,
    alpha: float = 1.0,
    lambda_b: float = 1.0,
    lambda_d: float = 1.0,
    scalarizer: Scalarizer = "linear",
    n_weights: int = 1024,
    seed: int = 0,
    subset: int | None = None,
    multipliers: Sequence[float] | None = None,
    bonus: Bonus | None = None,
    min_spread: float = 1e-3,
) -> Advantages:
    """Return the advantages of a batch of rollouts, relative to their groups.

    Args:
        reward_matrices: One (m_i, k_i) matrix a rollout, or an (n, m, k) array. A rollout without
            a readable answer has ``[]``. Rewards best lie in [0, 1].
        group_ids: (n,) rollouts of one prompt share an id. A group of one has no signal.
        estimator: A name of :data:`ESTIMATORS`.
        references: For ``vpo`` and ``vpo_iid``: what the answers must beat, one (p_i, k_i) matrix
            or None a rollout, the same within a group. The worth is then the gain over them.
        credit: ``"rollout"``: every token alike (the paper); ``"prefix"``: reward-to-go of each
            answer, unbiased along a chain; ``"loo"``: leave-one-out shares, unbiased for answers
            drawn independently. The last two need an estimator that is linear in the worth.
        scale: ``"std"`` divides by the group's standard deviation, ``"mean"`` by its mean worth
            (MaxRL; worths at least 0), ``"batch"`` by the standard deviation of all relative of the
            batch, ``"none"`` by nothing; by default as published.
        alpha: Concentration of the preference weights, as ``lambda_b`` to ``seed`` of
            :func:`vpo.utility.set_utility`.
        lambda_b: Weight of the best answer's lead over the mean.
        lambda_d: Weight of the specialisation gain.
        scalarizer: How rewards are weighed.
        n_weights: Nodes of the quadrature.
        seed: Seed of the quadrature; change it from step to step.
        subset: How many members compete in ``max_at_k`` and ``vpo_iid``; by default half of the
            group, at least 2.
        multipliers: (k,) weights mu of reward floors (:mod:`vpo.controllers`); the worth becomes
            (U + sum_j mu_j q_j) / (1 + sum_j mu_j), q_j the mean reward j of the answers.
        bonus: A diversity bonus on texts or descriptors.
        min_spread: A group whose worths have a standard deviation below this share of the range of
            worths in the batch has no signal either.

    Raises:
        ValueError: If a shape does not fit, a number is not finite, or an option is unknown or
            does not go with the estimator.
    """
    rule = _rule(estimator, credit, scale, references is not None, multipliers is not None)
    preference = Preference(alpha, scalarizer, n_weights, seed)
    buckets = by_shape(reward_matrices, references)
    check_bounds(buckets, scalarizer)
    n = len(reward_matrices)
    groups, by_size = _grouped(group_ids, n)

    value = worth(_KIND[rule.worth], preference, lambda_b, lambda_d, multipliers)
    compared, n_answers = returns(buckets, value, credit, n)
    utilities, errors = compared[:, 0].mean(axis=1), standard_error(compared[:, 0])
    if rule.worth == "vector":
        compared = _decoupled(mean_vectors(buckets, n), by_size, min_spread)
    elif rule.worth == "iid":
        compared = _iid(buckets, preference, by_size, n, subset)

    if bonus is not None:
        compared = compared * bonus.factors(n)[:, None, None]

    relative = np.zeros(compared.shape[:2])
    dead = np.ones(len(groups), dtype=bool)
    limit = max(MIN_STD, min_spread * float(np.ptp(compared[:, 0].mean(axis=1)))) if n else 0.0
    present = _present(n_answers, compared.shape[1], credit)
    chosen_scale = scale or rule.scale
    for position, index in by_size:
        chosen_subset = _subset(subset, index.shape[1])
        part, alive = _centred(compared[index], present[index], rule, chosen_subset, limit)
        worths = compared[index, 0].mean(axis=2)
        relative[index] = part / _divisor(part, worths, rule, chosen_scale)[:, None, None]
        dead[position] = ~alive
    if chosen_scale == "batch":
        relative /= _batch_std(relative, present) + rule.epsilon
    if bonus is not None:
        relative = bonus.added_to(relative, [index for _, index in by_size])
    return Advantages(
        advantages=relative[:, 0],
        answer_advantages=_by_answer(relative, n_answers, credit),
        n_answers=n_answers,
        utilities=utilities,
        standard_errors=errors,
        groups=groups,
        dead_groups=dead,
        credit=credit,
        diagnostics=_diagnostics(relative[:, 0], utilities, errors, dead),
    )


def _rule(
    name: str, credit: Credit, scale: Scale | None, referenced: bool, constrained: bool
) -> Estimator:
    if name not in ESTIMATORS:
        raise ValueError(f"estimator is {name!r}, allowed: {', '.join(ESTIMATORS)}")
    if credit not in get_args(Credit):
        raise ValueError(f"credit is {credit!r}, allowed: {', '.join(get_args(Credit))}")
    if scale is not None and scale not in get_args(Scale):
        raise ValueError(f"scale is {scale!r}, allowed: {', '.join(get_args(Scale))}")
    rule = ESTIMATORS[name]
    if credit != "rollout" and not rule.linear:
        raise ValueError(f"credit {credit!r}: {name} compares whole rollouts, 'rollout' is allowed")
    if referenced and rule.worth not in ("utility", "iid"):
        raise ValueError(f"references: {name} knows no gain over them, vpo and vpo_iid do")
    if constrained and rule.worth in ("vector", "iid"):
        raise ValueError(f"multipliers: {name} has no scalar worth to add floors to")
    return rule


def _grouped(
    group_ids: Sequence[int] | npt.NDArray[Any], n: int
) -> tuple[npt.NDArray[Any], list[tuple[Ints, Ints]]]:
    """Return the distinct ids, and for each group size the groups' positions and (g, s) members."""
    ids = np.asarray(group_ids)
    if ids.shape != (n,):
        raise ValueError(f"group_ids: shape {ids.shape}, one id for each of {n} rollouts is needed")
    groups, inverse, sizes = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    starts = np.cumsum(sizes) - sizes
    by_size = []
    for size in np.unique(sizes[sizes > 1]):
        position = np.flatnonzero(sizes == size)
        by_size.append((position, order[starts[position, None] + np.arange(size)]))
    return groups, by_size


def _subset(subset: int | None, size: int) -> int:
    if subset is None:
        return max(2, size // 2)
    if subset < 1:
        raise ValueError(f"subset is {subset}, at least 1 is needed")
    return min(subset, size)


def _decoupled(vectors: Floats, by_size: list[tuple[Ints, Ints]], min_spread: float) -> Floats:
    result = np.zeros((len(vectors), 1, REPLICATES))
    smallest = max(MIN_STD, min_spread * float(np.ptp(vectors))) if vectors.size else MIN_STD
    for _, index in by_size:
        credit = estimators.decoupled(vectors[index], smallest=smallest)
        result[index] = credit[:, :, None, None]
    return result


def _iid(
    buckets: Sequence[Bucket],
    preference: Preference,
    by_size: list[tuple[Ints, Ints]],
    n: int,
    subset: int | None,
) -> Floats:
    scores, quadrature = scores_at_nodes(buckets, preference, n)
    result = np.zeros((n, 1, REPLICATES))
    for _, index in by_size:
        size = index.shape[1]
        for members in index:  # one group's scores at a time stay in the cache
            gain = estimators.max_gain(scores[members].T, max(2, _subset(subset, size)))
            result[members, 0] = quadrature.replicates(gain.T)
    return result


def _present(n_answers: Ints, columns: int, credit: Credit) -> Bools:
    """Return the (n, columns) mask of relative that belong to some token."""
    present = np.ones((len(n_answers), columns), dtype=bool)
    last = n_answers + (credit == "prefix")  # what follows the last answer counts as well
    present[:, 1:] = np.arange(columns - 1) < last[:, None]
    return present


def _centred(
    compared: Floats, present: Bools, rule: Estimator, subset: int, limit: float
) -> tuple[Floats, Bools]:
    """Return the (g, s, c) relative of g groups, 0 without signal, and which groups have some."""
    x = compared.mean(axis=3)
    # All members share the nodes, so the error that matters is that of the difference.
    off = compared - compared.mean(axis=1, keepdims=True)
    noise = off.std(axis=3, ddof=1) / np.sqrt(REPLICATES)
    floor = np.maximum(limit, 3.0 * np.sqrt((noise**2).mean(axis=1)))
    signal = x.std(axis=1) > floor
    columns = [rule.centre(x[:, :, c], subset) for c in range(x.shape[2])]
    relative = np.where(present & signal[:, None], np.stack(columns, axis=2), 0.0)
    return relative, signal.any(axis=1)


def _divisor(relative: Floats, worths: Floats, rule: Estimator, scale: Scale) -> Floats:
    """Return the (g,) numbers that the relative of g groups are divided by."""
    if scale in ("none", "batch"):
        return np.ones(len(relative))
    if scale == "mean":
        mean: Floats = worths.mean(axis=1)
        # Without signal a gain may be negative by an error of the quadrature.
        if ((mean < 0.0) & relative.any(axis=(1, 2))).any():
            raise ValueError("scale 'mean': a group's mean worth is negative, 0 or more is needed")
        return np.maximum(mean, 0.0) + rule.epsilon
    # One divisor for all columns keeps their proportions; the widest keeps them bounded.
    widest: Floats = relative.std(axis=1, ddof=rule.ddof).max(axis=1)
    return widest + rule.epsilon


def _batch_std(relative: Floats, present: Bools) -> float:
    living = relative[present & (relative != 0.0).any(axis=1, keepdims=True)]
    return float(living.std(ddof=1)) if living.size > 1 else 1.0


def _by_answer(relative: Floats, n_answers: Ints, credit: Credit) -> Floats:
    widest = int(n_answers.max(initial=0))
    whole = relative[:, :1]
    if credit == "prefix":
        return relative[:, 1:]
    within = np.arange(widest + 1) <= n_answers[:, None]
    result: Floats = np.where(within, whole, 0.0)
    if credit == "loo":
        answers = np.arange(widest) < n_answers[:, None]
        result[:, :widest][answers] = relative[:, 1:][answers]
    return result


def _diagnostics(
    advantages: Floats, utilities: Floats, errors: Floats, dead: Bools
) -> dict[str, float]:
    if len(advantages) == 0:
        return {}
    return {
        "utility_mean": float(utilities.mean()),
        "utility_std": float(utilities.std()),
        "utility_error_max": float(errors.max()),
        "dead_group_share": float(dead.mean()),
        "advantage_max": float(np.abs(advantages).max()),
    }
