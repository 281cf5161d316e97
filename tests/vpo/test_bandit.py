"""Policy gradients on a toy problem: scalar training collapses, the set utility covers."""

import numpy as np

from vpo.advantages import compute_advantages
from vpo.utility import set_utility

# Three specialists and a generalist whose mean reward is the best of all.
ARMS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.4, 0.4, 0.4]])


def train(estimator, credit="rollout", steps=400, groups=16, size=8, m=3):
    """One softmax a position; answers are drawn position by position, given those before."""
    rng = np.random.default_rng(0)
    logits = np.zeros((m, len(ARMS)))
    for step in range(steps):
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        n = groups * size
        picks = np.stack([rng.choice(len(ARMS), size=n, p=p[j]) for j in range(m)], axis=1)
        result = compute_advantages(
            ARMS[picks],
            np.repeat(np.arange(groups), size),
            estimator=estimator,
            credit=credit,
            seed=step,
        )
        for j in range(m):
            choice = np.eye(len(ARMS))[picks[:, j]] - p[j]
            logits[j] += 0.3 * (result.answer_advantages[:, j, None] * choice).mean(axis=0)
    return p


def test_grpo_collapses_to_the_generalist():
    p = train("grpo")
    assert (p[:, 3] > 0.9).all()
    assert set_utility(ARMS[p.argmax(axis=1)]).value < 0.41


def test_vpo_covers_the_specialists():
    for credit in ("rollout", "prefix"):
        p = train("vpo", credit)
        assert sorted(p.argmax(axis=1)) == [0, 1, 2]
        assert (p.max(axis=1) > 0.9).all()
        assert set_utility(ARMS[p.argmax(axis=1)]).value > 0.6


def test_vpo_with_lambda_zero_is_scalar_training():
    rng = np.random.default_rng(1)
    rewards, ids = rng.random((8, 3, 4)), [0] * 8
    scalar = compute_advantages(rewards, ids, estimator="grpo", scale="none").advantages
    family = compute_advantages(rewards, ids, lambda_b=0.0, lambda_d=0.0, scale="none").advantages
    np.testing.assert_allclose(family, scalar, atol=1e-12)
