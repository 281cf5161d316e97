"""Credit inside a rollout: sums, unbiased gradients on enumerated chains, tokens."""

import itertools

import numpy as np
import pytest

from vpo.advantages import compute_advantages
from vpo.credit import answer_shares
from vpo.tokens import token_advantages
from vpo.utility import set_utility

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("m", "k"), [(1, 4), (2, 5), (3, 3), (4, 2), (3, 6), (6, 4)])
@pytest.mark.parametrize("referenced", [False, True])
def test_shares_sum_as_they_should(m, k, referenced):
    sets = [RNG.random((m, k)), RNG.random((m + 1, k)), []]
    references = [RNG.random((2, k)), None, RNG.random((1, k))] if referenced else None
    value = set_utility(sets, references=references).value
    prefix, loo, shapley = (
        answer_shares(sets, share, references=references).values
        for share in ("prefix", "loo", "shapley")
    )
    for i, rows in enumerate(sets):
        assert prefix[i].shape == loo[i].shape == shapley[i].shape == (len(rows),)
        assert prefix[i].sum() == pytest.approx(value[i], abs=1e-12)
        assert shapley[i].sum() == pytest.approx(value[i], abs=1e-3 if m > 3 else 1e-12)
        assert loo[i].sum() <= value[i] + 1e-3
        assert (loo[i] <= shapley[i] + 1e-3).all()
        assert min(prefix[i].min(initial=0), loo[i].min(initial=0)) > -1e-3


def test_shapley_by_orders_of_arrival():
    for m, k in ((3, 3), (5, 2)):
        rows = RNG.random((m, k))
        expected = np.zeros(m)
        orders = list(itertools.permutations(range(m)))
        for order in orders:
            gains = answer_shares(rows[None, list(order)], "prefix").values[0]
            expected[list(order)] += gains / len(orders)
        got = answer_shares(rows[None], "shapley", n_weights=1 << 13).values[0]
        np.testing.assert_allclose(got, expected, atol=1e-12 if m <= 4 else 1e-3)


def test_a_repeated_answer_has_no_leave_one_out_share():
    row, other = RNG.random((2, 5))
    loo = answer_shares([[row, other, row]], "loo").values[0]
    np.testing.assert_allclose(loo[[0, 2]], 0.0, atol=1e-15)
    assert loo[1] > 0.0


@pytest.mark.parametrize("share", ["prefix", "loo", "shapley"])
def test_shares_come_with_their_error(share):
    sets = RNG.random((40, 5, 4))
    truth = answer_shares(sets, share, n_weights=1 << 14, seed=99)
    got = answer_shares(sets, share, n_weights=256)
    error = np.abs(np.array(got.values) - np.array(truth.values))
    claimed = np.array(got.standard_errors)
    noisy = claimed > 1e-12
    assert noisy.mean() > 0.3
    assert (error[noisy] <= 2.5 * claimed[noisy]).mean() > 0.9
    # An answer that wins at no node seems free of error: it may win between them.
    assert error[~noisy].max(initial=0.0) < 5e-4
    # Where closed forms reach, there is none.
    exact = answer_shares(RNG.random((3, 4, 3)), share)
    assert not np.concatenate(exact.standard_errors).any()


def both(_):
    return (0, 1)


# A chain of two choices out of three answers, the second given the first (mostly a copy).
ANSWERS = np.array([[1.0, 0.1, 0.0], [0.2, 0.9, 0.1], [0.35, 0.3, 0.45]])
FIRST = np.array([0.3, -0.2, 0.0])
SECOND = np.array([[2.0, 0.0, -0.5], [-1.0, 1.5, 0.5], [0.0, 1.0, 0.5]])
STOP = 0.4  # chance to end after the first answer, in the chain that may


def softmax(logits):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


P1, P2 = softmax(FIRST), softmax(SECOND)


def chain():
    """All pairs of answers with their chance and the gradient of each choice's log-chance."""
    for a, b in itertools.product(range(3), range(3)):
        first, second = np.zeros(12), np.zeros(12)
        first[:3] = np.eye(3)[a] - P1
        second[3 + 3 * a : 6 + 3 * a] = np.eye(3)[b] - P2[a]
        yield (a, b), P1[a] * P2[a, b], (first, second)


def group_gradient(outcomes, sets, tokens_of, **options):
    """E over all groups of two of (1/2) sum_i sum_t A_it grad log pi_it, by enumeration."""
    pairs = list(itertools.product(range(len(outcomes)), repeat=2))
    batch = [sets[i] for pair in pairs for i in pair]
    result = compute_advantages(
        batch, np.repeat(np.arange(len(pairs)), 2), scale="none", min_spread=0.0, **options
    )
    total = 0.0
    for g, pair in enumerate(pairs):
        chance = outcomes[pair[0]][1] * outcomes[pair[1]][1]
        for slot, i in enumerate(pair):
            for column, gradient in zip(tokens_of(i), outcomes[i][2], strict=True):
                total += 0.5 * chance * result.answer_advantages[2 * g + slot, column] * gradient
    return total


@pytest.mark.parametrize("credit", ["rollout", "prefix"])
def test_chain_credit_is_unbiased(credit):
    """The group's own mean as the baseline shrinks the gradient by (n - 1) / n, no more."""
    outcomes = list(chain())
    sets = [ANSWERS[list(answers)] for answers, _, _ in outcomes]
    value = set_utility(np.stack(sets)).value
    truth = sum(p * u * (g1 + g2) for (_, p, (g1, g2)), u in zip(outcomes, value, strict=True))
    got = group_gradient(outcomes, sets, both, credit=credit)
    np.testing.assert_allclose(2.0 * got, truth, atol=1e-12)
    lean = group_gradient(outcomes, sets, both, credit=credit, estimator="rloo")
    scalar = np.stack(sets).mean((1, 2))
    truth = sum(p * u * (g1 + g2) for (_, p, (g1, g2)), u in zip(outcomes, scalar, strict=True))
    np.testing.assert_allclose(lean, truth, atol=1e-12)


def test_prefix_credit_frees_later_answers_of_the_noise_of_the_first():
    outcomes = list(chain())
    graded = ANSWERS * np.array([[1.0], [0.5], [0.2]])
    sets = np.stack([graded[list(answers)] for answers, _, _ in outcomes])
    spread = {}
    for credit in ("rollout", "prefix"):
        result = compute_advantages(sets, np.zeros(9, int), scale="none", credit=credit)
        spread[credit] = sum(
            p * np.sum((result.answer_advantages[i, 1] * g2) ** 2)
            for i, (_, p, (_, g2)) in enumerate(outcomes)
        )
    assert spread["prefix"] < 0.8 * spread["rollout"]


def test_leave_one_out_credit_is_biased_on_a_chain_and_exact_for_independent_answers():
    outcomes = list(chain())
    sets = [ANSWERS[list(answers)] for answers, _, _ in outcomes]
    value = set_utility(np.stack(sets)).value
    truth = sum(p * u * (g1 + g2) for (_, p, (g1, g2)), u in zip(outcomes, value, strict=True))
    biased = 2.0 * group_gradient(outcomes, sets, both, credit="loo")
    assert np.abs(biased - truth).max() > 0.1 * np.abs(truth).max()

    independent = [
        ((a, b), P1[a] * P1[b], (np.eye(3)[a] - P1, np.eye(3)[b] - P1))
        for a, b in itertools.product(range(3), range(3))
    ]
    truth = sum(p * u * (g1 + g2) for (_, p, (g1, g2)), u in zip(independent, value, strict=True))
    got = group_gradient(independent, sets, both, credit="loo")
    np.testing.assert_allclose(2.0 * got, truth, atol=1e-12)


def test_vpo_iid_is_unbiased():
    """Groups of three answers: the gradient of E R(two independent answers), enumerated."""
    triples = list(itertools.product(range(3), repeat=3))
    result = compute_advantages(
        ANSWERS[np.array(triples)].reshape(-1, 1, 3),
        np.repeat(np.arange(27), 3),
        estimator="vpo_iid",
        subset=2,
        scale="none",
        min_spread=0.0,
        n_weights=1 << 13,
    )
    scores = np.eye(3) - P1
    got = sum(
        P1[list(t)].prod() * result.advantages[3 * g + i] * scores[a]
        for g, t in enumerate(triples)
        for i, a in enumerate(t)
    )
    truth = sum(
        P1[a] * P1[b] * float(set_utility(ANSWERS[[a, b]]).value) * (scores[a] + scores[b])
        for a, b in itertools.product(range(3), range(3))
    )
    np.testing.assert_allclose(got, truth, atol=1e-4)


def test_tokens_of_a_chain_that_may_stop_are_unbiased():
    """Tokens: answer 1, go on or stop, answer 2 if it goes on. The stop is credited too."""
    outcomes, sets, spans = [], [], []
    decide = np.zeros(13)
    decide[12] = 1.0
    for (a, b), p, (g1, g2) in chain():
        g1, g2 = np.append(g1, 0.0), np.append(g2, 0.0)
        # d log(1 - STOP) and d log(STOP) for STOP = sigmoid(theta).
        outcomes.append(((a, b), p * (1 - STOP), (g1, -STOP * decide, g2)))
        sets.append(ANSWERS[[a, b]])
        spans.append([(0, 1), (2, 3)])
        if b == 0:
            outcomes.append(((a,), P1[a] * STOP, (g1, (1 - STOP) * decide)))
            sets.append(ANSWERS[[a]])
            spans.append([(0, 1)])
    assert sum(p for _, p, _ in outcomes) == pytest.approx(1.0)
    value = set_utility(sets).value
    truth = sum(p * u * sum(g) for (_, p, g), u in zip(outcomes, value, strict=True))

    pairs = list(itertools.product(range(len(outcomes)), repeat=2))
    members = [i for pair in pairs for i in pair]
    result = compute_advantages(
        [sets[i] for i in members],
        np.repeat(np.arange(len(pairs)), 2),
        credit="prefix",
        scale="none",
        min_spread=0.0,
    )
    lengths = [len(outcomes[i][2]) for i in members]
    table = token_advantages(result, [spans[i] for i in members], lengths)
    assert table.shape == (len(members), 3)
    got = np.zeros(13)
    for g, pair in enumerate(pairs):
        chance = outcomes[pair[0]][1] * outcomes[pair[1]][1]
        for slot, i in enumerate(pair):
            for t, gradient in enumerate(outcomes[i][2]):
                got += 0.5 * chance * table[2 * g + slot, t] * gradient
    np.testing.assert_allclose(2.0 * got, truth, atol=1e-12)


def test_token_layout():
    rewards = [RNG.random((2, 4)), RNG.random((1, 4)), []]
    spans = [[(1, 3), (4, 6)], [(0, 2)], []]
    lengths = [8, 3, 2]
    flat = compute_advantages(rewards, [0] * 3)
    table = token_advantages(flat, spans, lengths)
    for i, length in enumerate(lengths):
        assert (table[i, :length] == flat.advantages[i]).all()
        assert (table[i, length:] == 0.0).all()
    prefix = compute_advantages(rewards, [0] * 3, credit="prefix")
    row = token_advantages(prefix, spans, lengths)[0]
    a = prefix.answer_advantages[0]
    assert row.tolist() == [a[0]] * 3 + [a[1]] * 3 + [a[2]] * 2
    loo = compute_advantages(rewards, [0] * 3, credit="loo")
    row = token_advantages(loo, spans, lengths)[0]
    a, whole = loo.answer_advantages[0], loo.advantages[0]
    assert row.tolist() == [whole, a[0], a[0], whole, a[1], a[1], whole, whole]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([[(0, 2)], [(0, 1)]], "has 2 answers"),
        ([[(0, 2), (1, 3)], [(0, 1)]], "ascend"),
        ([[(0, 2), (3, 9)], [(0, 1)]], "within 5"),
        ([[]], "1 spans"),
    ],
)
def test_spans_that_do_not_fit_are_named(spans, message):
    result = compute_advantages([np.eye(2), np.eye(2)[:1]], [0, 0])
    with pytest.raises(ValueError, match=message):
        token_advantages(result, spans, [5, 5])
