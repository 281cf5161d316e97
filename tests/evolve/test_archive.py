"""The vector archive against a plain model of its definition."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolve.archive import STATUSES, Archive, Islands, WeightBank, uniform_bank, weight_bank
from evolve.tessellation import Grid

# The same examples every time, and no clock.
steady = settings(deadline=None, derandomize=True, max_examples=60)

LINE = Grid([0], [1], (4,))
BANKS = {
    "uniform": uniform_bank(3),
    "full": weight_bank(3, 1.0, 9, np.random.default_rng(0)),
    "undrawn": weight_bank(3, 1.0, 0, np.random.default_rng(0)),
}
# Few different rewards, lengths and cells: ties and repeats are the rule.
reward = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
program = st.tuples(
    st.tuples(reward, reward, reward), st.floats(-0.5, 1.5), st.sampled_from([10, 20, 30])
)
programs = st.lists(program, max_size=60)
bank = st.sampled_from(sorted(BANKS))


@dataclass
class Model:
    """What an archive is by definition: under each weight the best of all that a cell was offered.

    Scores are added up term by term as the archive promises, so equal means equal.
    """

    bank: WeightBank
    offered: dict[int, list] = field(default_factory=dict)

    def add(self, id_, rewards, where, length):
        cell = min(3, max(0, int(4 * where + 1e-6)))
        before = self.champions(cell)
        known = cell in self.offered
        self.offered.setdefault(cell, []).append((id_, rewards, length))
        after = self.champions(cell)
        gains = [new[0] - old[0] for new, old in zip(after, before, strict=True)]
        taken = any(new[1] != old[1] for new, old in zip(after, before, strict=True))
        return (2 if not known else int(taken)), sum(gains) / len(gains), cell

    def champions(self, cell):
        """(score, id, rewards) under each weight; an empty cell scores 0."""
        return [
            max(
                ((self.score(w, r), -n, -i, r) for i, r, n in self.offered.get(cell, [])),
                default=(0.0, 0, None, None),
            )[::2]
            for w in self.bank.weights.tolist()
        ]

    @staticmethod
    def score(weight, rewards):
        total = weight[0] * rewards[0]
        for w, r in zip(weight[1:], rewards[1:], strict=True):
            total += w * r
        return total

    def held(self):
        return {(-c[1], cell) for cell in self.offered for c in self.champions(cell)}


def split(drawn):
    rewards = np.array([p[0] for p in drawn]).reshape(-1, 3)
    return rewards, np.array([[p[1]] for p in drawn]).reshape(-1, 1), [p[2] for p in drawn]


def one_by_one(kind, drawn, ids=None):
    archive = Archive(LINE, BANKS[kind])
    ids = range(len(drawn)) if ids is None else ids
    added = [archive.add(i, r, [x], n) for i, (r, x, n) in zip(ids, drawn, strict=True)]
    return archive, added


@steady
@given(bank, programs)
def test_every_add_and_every_champion_are_those_of_the_model(kind, drawn):
    model, archive = Model(BANKS[kind]), Archive(LINE, BANKS[kind])
    for id_, (rewards, where, length) in enumerate(drawn):
        status, value, cell = model.add(id_, rewards, where, length)
        added = archive.add(id_, rewards, [where], length)
        assert (added.status, added.cell) == (STATUSES[status], cell)
        assert added.value == pytest.approx(value, abs=1e-12)
    assert archive.occupied().tolist() == sorted(model.offered)
    assert set(archive.ids().tolist()) == {id_ for id_, _ in model.held()}
    for cell, scores in zip(archive.occupied().tolist(), archive.scores(), strict=True):
        assert scores.tolist() == [champion[0] for champion in model.champions(cell)]
        assert archive.champions(cell).tolist() == [-c[1] for c in model.champions(cell)]
        rewards = [drawn[i][0] for i in archive.champions(cell)]
        assert archive.champion_rewards(cell).tolist() == [list(r) for r in rewards]


@steady
@given(bank, programs)
def test_figures_are_those_of_the_programs_held(kind, drawn):
    archive, _ = one_by_one(kind, drawn)
    figures = archive.metrics()
    weights = BANKS[kind].weights
    drawn_weights = weights[: BANKS[kind].n_dirichlet] if kind == "full" else weights[-1:]
    cells = archive.occupied().tolist()
    held = {c: np.array([drawn[i][0] for i in set(archive.champions(c).tolist())]) for c in cells}
    every = np.vstack([*held.values(), np.zeros((0, 3))])
    assert figures.n_cells == len(cells) == 4 * figures.coverage
    assert figures.n_programs == len(every) == len(archive.ids())
    if not drawn:
        assert figures.qd_score == figures.set_utility == figures.best_mean == 0.0
        return
    means = [r.mean(axis=1).max() for r in held.values()]
    utility = [np.mean(np.max(drawn_weights @ r.T, axis=1)) for r in [*held.values(), every]]
    assert figures.qd_score == pytest.approx(sum(means), abs=1e-12)
    assert figures.best_mean == pytest.approx(max(means), abs=1e-12)
    assert figures.vector_qd_score == pytest.approx(sum(utility[:-1]), abs=1e-12)
    assert figures.set_utility == pytest.approx(utility[-1], abs=1e-12)
    assert figures.best == tuple(every.max(axis=0))


@steady
@given(bank, programs, st.integers(1, 30))
def test_a_batch_is_one_add_after_the_other(kind, drawn, size):
    archive, added = one_by_one(kind, drawn)
    batched = Archive(LINE, BANKS[kind])
    rewards, where, lengths = split(drawn)
    outcomes = []
    for start in range(0, len(drawn), size):
        part = slice(start, start + size)
        ids = range(len(drawn))[part]
        batch = batched.add_batch(ids, rewards[part], where[part], lengths[part])
        outcomes += zip(batch.status.tolist(), batch.value, batch.cell.tolist(), strict=True)
    assert [(STATUSES[s], v, c) for s, v, c in outcomes] == [tuple(a) for a in added]
    assert batched.digest() == archive.digest()
    assert batched.metrics() == archive.metrics()


@steady
@given(bank, programs, st.randoms(use_true_random=False))
def test_the_order_of_the_offers_does_not_matter(kind, drawn, random):
    archive, _ = one_by_one(kind, drawn)
    order = list(range(len(drawn)))
    random.shuffle(order)
    shuffled, _ = one_by_one(kind, [drawn[i] for i in order], order)
    assert shuffled.digest() == archive.digest()


@steady
@given(bank, programs)
def test_scores_never_fall_and_values_say_by_how_much_they_rise(kind, drawn):
    archive = Archive(LINE, BANKS[kind])
    table = np.zeros((4, BANKS[kind].size))
    for id_, (rewards, where, length) in enumerate(drawn):
        added = archive.add(id_, rewards, [where], length)
        after = np.zeros_like(table)
        after[archive.occupied()] = archive.scores()
        assert (after >= table).all()
        assert added.value == pytest.approx((after - table).mean(axis=1).sum(), abs=1e-12)
        table = after


@steady
@given(bank, programs)
def test_a_program_offered_again_changes_nothing(kind, drawn):
    archive, _ = one_by_one(kind, drawn)
    before = archive.digest()
    again = [archive.add(i, r, [x], n) for i, (r, x, n) in enumerate(drawn)]
    assert {(a.status, a.value) for a in again} <= {("rejected", 0.0)}
    assert archive.digest() == before


def test_ties_go_to_shorter_then_older_text():
    archive = Archive(LINE, BANKS["full"])
    rewards = (0.5, 0.5, 0.5)
    assert archive.add(5, rewards, [0.1], 30).status == "new"
    assert archive.add(6, rewards, [0.1], 30) == ("rejected", 0.0, 0)
    assert archive.add(7, rewards, [0.1], 20) == ("improved", 0.0, 0)
    assert archive.add(4, rewards, [0.1], 20) == ("improved", 0.0, 0)
    assert archive.ids().tolist() == [4]


def test_specialists_live_beside_the_best_mean():
    archive = Archive(LINE, BANKS["full"])
    for id_, rewards in enumerate([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0.6, 0.6)]):
        archive.add(id_, rewards, [0.1], 10)
    assert archive.champions(0)[-4:].tolist() == [0, 1, 2, 3]
    classical = Archive(LINE, BANKS["uniform"])
    for id_, rewards in enumerate([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0.6, 0.6)]):
        classical.add(id_, rewards, [0.1], 10)
    assert classical.champions(0).tolist() == [3]


def test_the_bank_holds_draws_units_and_the_uniform_weight():
    bank = weight_bank(4, 0.3, 50_000, np.random.default_rng(1))
    np.testing.assert_allclose(bank.weights.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(bank.weights[-5:-1], np.eye(4))
    np.testing.assert_array_equal(bank.weights[-1], 0.25)
    drawn = bank.weights[: bank.n_dirichlet]
    # Moments of Dir(a, ..., a): mean 1/k, variance (k - 1) / (k^2 (k a + 1)).
    np.testing.assert_allclose(drawn.mean(axis=0), 0.25, atol=0.005)
    np.testing.assert_allclose(drawn.var(axis=0), 3 / (16 * 2.2), atol=0.002)
    assert weight_bank(1, 1.0, 32, np.random.default_rng(0)).weights.tolist() == [[1.0]]


def test_vector_qd_score_estimates_the_closed_form():
    # R of the unit vectors is E[max_i w_i] = H_k / k under Dir(1, ..., 1).
    archive = Archive(LINE, weight_bank(3, 1.0, 100_000, np.random.default_rng(2)))
    for id_, rewards in enumerate(np.eye(3)):
        archive.add(id_, rewards, [0.1], 10)
        archive.add(3 + id_, rewards, [0.9], 10)
    figures = archive.metrics()
    assert figures.set_utility == pytest.approx((1 + 1 / 2 + 1 / 3) / 3, abs=2e-3)
    assert figures.vector_qd_score == pytest.approx(2 * figures.set_utility, abs=1e-12)


@steady
@given(bank, programs, st.integers(1, 4))
def test_migration_passes_each_islands_leaders_one_step_round(kind, drawn, n):
    islands = Islands([Archive(LINE, BANKS[kind]) for _ in range(n)])
    for id_, (rewards, where, length) in enumerate(drawn):
        islands[id_ % n].add(id_, rewards, [where], length)
    leaders = []
    expected = [Archive(LINE, BANKS[kind]) for _ in range(n)]
    for island, archive in enumerate(islands):
        held = archive.ids().tolist()
        best = {
            max((Model.score(w, drawn[i][0]), -drawn[i][2], -i) for i in held)[2]
            for w in BANKS[kind].weights.tolist()
            if held
        }
        leaders.append(sorted(-i for i in best))
        assert [leader[0] for leader in archive.leaders()] == leaders[-1]
        for i in held:
            expected[island].add(i, drawn[i][0], [drawn[i][1]], drawn[i][2])
    before = islands.metrics()
    islands.migrate()
    for island, sent in enumerate(leaders):
        for i in sent:
            expected[(island + 1) % n].add(i, drawn[i][0], [drawn[i][1]], drawn[i][2])
    assert [a.digest() for a in islands] == [a.digest() for a in expected]
    after = islands.metrics()
    assert (after.set_utility, after.coverage) == (before.set_utility, before.coverage)
    assert after.qd_score == pytest.approx(before.qd_score, abs=1e-12)


@steady
@given(bank, programs)
def test_islands_together_measure_what_one_archive_would(kind, drawn):
    islands = Islands([Archive(LINE, BANKS[kind]) for _ in range(3)])
    for id_, (rewards, where, length) in enumerate(drawn):
        islands[id_ % 3].add(id_, rewards, [where], length)
    together, one = islands.metrics(), one_by_one(kind, drawn)[0].metrics()
    assert together.coverage == one.coverage
    assert together.qd_score == pytest.approx(one.qd_score, abs=1e-12)
    assert together.vector_qd_score == pytest.approx(one.vector_qd_score, abs=1e-12)
    assert together.set_utility == one.set_utility
    assert together.best_mean == one.best_mean
    assert together.n_programs == len({i for island in islands for i in island.ids().tolist()})


def test_displaced_programs_leave_the_memory():
    archive = Archive(LINE, BANKS["uniform"])
    for id_ in range(5000):
        archive.add(id_, [id_ / 5000] * 3, [0.1], 10)
    assert archive.ids().tolist() == [4999]
    assert len(archive._ids) <= 64


@steady
@given(bank, programs.filter(len), st.integers(0, 2))
def test_digests_tell_states_apart(kind, drawn, part):
    archive, _ = one_by_one(kind, drawn)
    rewards, where, length = drawn[0]
    others = [((9.0, 9.0, 9.0), where, length), (rewards, (where + 0.3) % 1, length), None]
    changed = list(drawn)
    if part == 2:
        other = Archive(Grid([0], [1.5], (4,)), BANKS[kind])
        assert Archive(LINE, BANKS[kind]).digest() != other.digest()
        return
    changed[0] = others[part]
    other, _ = one_by_one(kind, changed)
    same = other.scores().tolist() == archive.scores().tolist()
    held = other.ids().tolist() == archive.ids().tolist()
    cells = other.occupied().tolist() == archive.occupied().tolist()
    if not (same and held and cells):
        assert other.digest() != archive.digest()


BAD = [
    (([0.5, np.nan, 0.5], [0.1]), "rewards is [0.5, nan, 0.5], finite numbers are needed"),
    (([0.5, np.inf, 0.5], [0.1]), "rewards is [0.5, inf, 0.5]"),
    (([0.5, 0.5], [0.1]), "rewards has 2 numbers, 3 are needed"),
    ((np.ones((1, 3)), [0.1]), "rewards is"),
    ((None, [0.1]), "rewards is None, 3 numbers are needed"),
    ((["a", "b", "c"], [0.1]), "3 numbers are needed"),
    (([0.5] * 3, [np.nan]), "descriptors is [nan]"),
    (([0.5] * 3, [-np.inf]), "descriptors is [-inf]"),
    (([0.5] * 3, [0.1, 0.2]), "descriptors has 2 numbers, 1 are needed"),
    (([0.5] * 3, 0.1), "descriptors is 0.1"),
]


@pytest.mark.parametrize("kind", sorted(BANKS))
@pytest.mark.parametrize(("given_", "told"), BAD)
def test_a_failed_program_never_gets_in(kind, given_, told):
    archive = Archive(LINE, BANKS[kind])
    before = archive.digest()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared below
        archive.add(1, *given_, 10)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert archive.digest() == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rewards": np.full((30, 3), np.nan)}, "rewards[0] is [nan, nan, nan]"),
        ({"rewards": np.ones((30, 2))}, "rewards has shape (30, 2), (30, 3) is needed"),
        ({"rewards": [["a"]] * 30}, "rewards: an array (30, 3) of numbers is needed"),
        ({"descriptors": np.full((30, 1), np.inf)}, "descriptors[0] is [inf]"),
        ({"descriptors": np.ones(30)}, "descriptors has shape (30,), (30, 1) is needed"),
        ({"lengths": [1] * 29}, "ids has shape (30,) and lengths (29,)"),
        ({"ids": 7}, "ids has shape ()"),
    ],
)
def test_one_bad_program_refuses_the_batch(change, told):
    archive = Archive(LINE, BANKS["full"])
    batch = {
        "ids": range(30),
        "rewards": np.ones((30, 3)),
        "descriptors": np.ones((30, 1)),
        "lengths": [1] * 30,
    }
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared below
        archive.add_batch(**batch | change)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(archive.occupied()) == 0


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda rng: weight_bank(0, 1.0, 3, rng), "k is 0"),
        (lambda rng: weight_bank(2, 0.0, 3, rng), "alpha is 0.0"),
        (lambda rng: weight_bank(2, float("nan"), 3, rng), "alpha is nan"),
        (lambda rng: weight_bank(2, 1.0, -1, rng), "n is -1"),
        (lambda _: uniform_bank(0), "k is 0"),
        (lambda _: Islands([]), "archives is empty"),
        (lambda _: Archive(LINE, BANKS["full"]).champions(0), "cell 0 is not occupied"),
        (lambda _: Archive(LINE, BANKS["full"]).champions(99), "cell 99 is not occupied"),
        (
            lambda _: Islands([Archive(LINE, BANKS[kind]) for kind in ("full", "uniform")]),
            "archives differ in cells or bank",
        ),
    ],
)
def test_bad_input_is_named_in_one_line(make, told):
    with pytest.raises(ValueError, match=told):
        make(np.random.default_rng(0))
