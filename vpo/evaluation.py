"""Search at inference: sample many answers, score them, select; and unbiased curves of its worth.

best@s is the expected best of s answers drawn at random from those at hand; its estimate needs no
resampling, for the chance that the i-th smallest of N is the largest of s is known:
C(i-1, s-1) / C(N, s) (Chen et al. 2021 for pass@k; PKPO, arXiv 2505.15201, for real rewards).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from vpo.expected import Preference, Scalarizer
from vpo.sets import Floats, RewardBatch, by_shape, undominated
from vpo.utility import standard_error

Answer = TypeVar("Answer")
Choice = TypeVar("Choice", bound=Hashable)


def best_at(values: npt.ArrayLike, sizes: Sequence[int]) -> Floats:
    """Return unbiased estimates of the expected maximum of s values, for each size s.

    Args:
        values: (N,) independent values; a leading axis (..., N) is kept.
        sizes: Sizes s, from 1 to N.

    Returns:
        (..., len(sizes)) estimates.

    Raises:
        ValueError: If a size is out of range.
    """
    ascending = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    n = ascending.shape[-1]
    return np.stack([ascending @ _leads(n, size) for size in sizes], axis=-1)


def pass_at(n: int, correct: int, size: int) -> float:
    """Return the unbiased pass@s of ``correct`` successes in n tries: 1 - C(n-c, s) / C(n, s)."""
    if not 0 <= correct <= n:
        raise ValueError(f"correct is {correct}, 0 to {n} are possible")
    return float(_leads(n, size)[n - correct :].sum())


@dataclass(frozen=True)
class Curves:
    """Expected best value against the effort spent on one prompt.

    Attributes:
        sizes: (c,) numbers of units drawn.
        by_answer: (c,) expected best of so many answers, NaN beyond the number at hand.
        by_rollout: (c,) expected best among the answers of so many rollouts, likewise.
        tokens: (c,) tokens that so many rollouts take on average, for a plot of
            ``by_rollout`` against tokens; NaN if no token counts were given.
    """

    sizes: tuple[int, ...]
    by_answer: Floats
    by_rollout: Floats
    tokens: Floats


def quality_curves(
    rewards: RewardBatch,
    sizes: Sequence[int],
    *,
    tokens: Sequence[int] | None = None,
    weights: npt.ArrayLike | None = None,
) -> Curves:
    """Return the curves of one prompt. Compare methods by rollout or token: answers differ in cost.

    Args:
        rewards: Matrices (m_i, k) of n rollouts; one without an answer is worth 0.
        sizes: Numbers of units, ascending or not.
        tokens: (n,) generated tokens of the rollouts.
        weights: (k,) of the scalar that is judged; uniform by default.
    """
    sets = [np.asarray(matrix, dtype=np.float64) for matrix in rewards]
    values = [_scalar(matrix, weights) for matrix in sets]
    answers = np.concatenate([np.zeros(0), *values])
    best = np.array([value.max() if len(value) else 0.0 for value in values])
    mean_tokens = float("nan") if tokens is None else float(np.mean(tokens))
    return Curves(
        sizes=tuple(sizes),
        by_answer=_within(answers, sizes),
        by_rollout=_within(best, sizes),
        tokens=mean_tokens * np.asarray(sizes, dtype=np.float64),
    )


@dataclass(frozen=True)
class SetCurve:
    """Expected utility of so many answers together.

    Attributes:
        value: (c,) E[R(S)] over subsets S, one for each size.
        standard_error: (c,) of ``value``, from the quadrature alone: the answers are taken as they
            are.
    """

    value: Floats
    standard_error: Floats


def set_curve(
    rewards: npt.ArrayLike,
    sizes: Sequence[int],
    *,
    alpha: float = 1.0,
    scalarizer: Scalarizer = "linear",
    n_weights: int = 1024,
    seed: int = 0,
) -> SetCurve:
    """Return unbiased estimates of E[R(S)] over subsets S of s answers, for each size s.

    Args:
        rewards: (N, k) reward vectors of independent answers.
        sizes: Sizes s, from 1 to N.
        alpha: See :func:`vpo.utility.set_utility`.
        scalarizer: Likewise.
        n_weights: Likewise.
        seed: Likewise.
    """
    rows = by_shape([rewards])[0].rows[0]
    preference = Preference(alpha, scalarizer, n_weights, seed)
    quadrature = preference.quadrature(rows.shape[1])
    best = best_at(preference.scores(rows, quadrature).T, sizes)  # (J, sizes)
    replicates = quadrature.replicates(best.T)
    return SetCurve(replicates.mean(axis=1), standard_error(replicates))


def pairwise_l1(rewards: npt.ArrayLike) -> float:
    """Return the mean L1 distance between the reward vectors of two of N answers; 0 for one."""
    rows = np.asarray(rewards, dtype=np.float64)
    n = len(rows)
    if n < 2:
        return 0.0
    # Along a sorted axis, gap i separates i + 1 values from the other n - i - 1.
    gaps = np.diff(np.sort(rows, axis=0), axis=0)
    below = np.arange(1, n)[:, None]
    return float((gaps * below * (n - below)).sum() / (n * (n - 1) / 2))


def pareto_front(rewards: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Return the indices of the answers that no other weakly dominates; of equals the first."""
    return np.flatnonzero(undominated(np.asarray(rewards, dtype=np.float64)[None])[0])


def best_under(rewards: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> int:
    """Return the index of the best answer of (N, k) under weights (k,); of equals the first."""
    return int(_scalar(np.asarray(rewards, dtype=np.float64), weights).argmax())


def majority(
    answers: Sequence[Choice], confidences: npt.ArrayLike | None = None
) -> tuple[Choice, float]:
    """Return the answer with most votes, of equals the earliest, and its share of the votes.

    Args:
        answers: Comparable final answers, at least one.
        confidences: (n,) votes an answer brings, at least 0: a verifier's scores make this a
            weighted vote; 1 each by default.
    """
    if not answers:
        raise ValueError("majority: no answers to choose from")
    votes = np.ones(len(answers)) if confidences is None else np.asarray(confidences, np.float64)
    if votes.shape != (len(answers),) or (votes < 0.0).any() or not votes.sum() > 0.0:
        raise ValueError(f"confidences: {len(answers)} numbers at least 0, not all 0, are needed")
    total: dict[Choice, float] = {}
    for answer, vote in zip(answers, votes.tolist(), strict=True):
        total[answer] = total.get(answer, 0.0) + vote
    winner = max(total, key=lambda answer: total[answer])
    return winner, total[winner] / float(votes.sum())


@dataclass(frozen=True)
class Selection(Generic[Answer]):
    """What :func:`search` found.

    Attributes:
        answers: All that were generated.
        rewards: (N, k) their reward vectors.
        chosen: Index of the one that was selected.
    """

    answers: tuple[Answer, ...]
    rewards: Floats
    chosen: int


def search(
    generate: Callable[[int], Sequence[Answer]],
    score: Callable[[Answer], Sequence[float]],
    n: int,
    *,
    choose: Callable[[Floats], int] = best_under,
) -> Selection[Answer]:
    """Return n generated answers, scored, with the selected one.

    Args:
        generate: Returns at least one and at most the asked number of answers.
        score: Returns the (k,) rewards of an answer.
        n: Number of answers.
        choose: Returns an index from the (N, k) rewards: :func:`best_under`, or a verifier.

    Raises:
        ValueError: If ``generate`` returns nothing or too much.
    """
    answers: list[Answer] = []
    while len(answers) < n:
        more = generate(n - len(answers))
        if not 0 < len(more) <= n - len(answers):
            raise ValueError(f"generate returned {len(more)} of {n - len(answers)} answers")
        answers.extend(more)
    rewards = np.array([list(score(answer)) for answer in answers], dtype=np.float64)
    return Selection(tuple(answers), rewards, choose(rewards))


def _leads(n: int, size: int) -> Floats:
    """Return the (n,) chances that the i-th smallest of n leads a random subset of that size."""
    if not 1 <= size <= n:
        raise ValueError(f"size is {size}, 1 to {n} are possible")
    # C(i-1, s-1) / C(n, s) from the top down: the binomials themselves would overflow.
    rank = np.arange(n, 1, -1)
    ratios = np.concatenate([[size / n], np.maximum(rank - size, 0) / (rank - 1)])
    leads: Floats = np.cumprod(ratios)[::-1]
    return leads


def _within(values: Floats, sizes: Sequence[int]) -> Floats:
    nothing = float("nan")
    known = [float(best_at(values, [s])[0]) if s <= len(values) else nothing for s in sizes]
    return np.array(known)


def _scalar(rows: Floats, weights: npt.ArrayLike | None) -> Floats:
    if rows.size == 0:
        return np.zeros(0)
    value: Floats = rows.mean(axis=1) if weights is None else rows @ np.asarray(weights)
    return value
