"""Novelty against hand-worked distances; how it enters is in test_advantages."""

import numpy as np
import pytest

from vpo.bonus import Bonus, descriptor_novelty, text_novelty


def test_text_novelty_is_the_mean_jaccard_distance():
    texts = ["abcde", "abcdx", "zzzz", "abcde", "ab"]
    ids = [0, 0, 0, 1, 1]
    got = text_novelty(texts, ids)
    # Pieces of four: {abcd, bcde}, {abcd, bcdx}, {zzzz}; then {abcd, bcde} and {ab}.
    np.testing.assert_allclose(got, [(2 / 3 + 1) / 2, (2 / 3 + 1) / 2, 1.0, 1.0, 1.0])
    assert text_novelty(["same", "same"], [0, 0]).tolist() == [0.0, 0.0]
    assert text_novelty(["alone"], [3]).tolist() == [0.0]


def test_descriptor_novelty_is_the_mean_distance():
    rng = np.random.default_rng(0)
    points, ids = rng.random((7, 3)), np.array([0, 0, 0, 1, 1, 2, 0])
    got = descriptor_novelty(points, ids)
    for i in range(7):
        others = [t for t in range(7) if t != i and ids[t] == ids[i]]
        apart = [np.sqrt(((points[i] - points[t]) ** 2).sum() / 3) for t in others]
        assert got[i] == pytest.approx(np.mean(apart) if apart else 0.0)
    corners = descriptor_novelty([[0.0, 0.0], [1.0, 1.0]], [0, 0])
    np.testing.assert_allclose(corners, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Bonus([0.1], combine="times"), "'add', 'multiply'"),
        (lambda: Bonus([0.1], weight=-1.0), "weight is -1.0"),
        (lambda: Bonus([0.1], combine="multiply", weight=1.5), "allowed: 0 to 1"),
        (lambda: Bonus([1.1]), r"novelty must lie in \[0, 1\]"),
        (lambda: text_novelty(["a", "b"], [0]), "one id for each of 2"),
        (lambda: descriptor_novelty([[0.0, 1.5]], [0]), r"\[0, 1\] are needed"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
