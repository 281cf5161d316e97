"""Parents are drawn with the probabilities that each rule states, by plain recomputation."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from evolve.archive import Archive
from evolve.bank import weight_bank
from evolve.selection import Mixture, choose
from evolve.tessellation import Grid

K = 3
ALONE = {
    "dirichlet": Mixture(1.0, 0.0, 0.0),
    "lexicase": Mixture(0.0, 1.0, 0.0),
    "uniform": Mixture(0.0, 0.0, 1.0),
}


@pytest.fixture(scope="module")
def archive():
    rng = np.random.default_rng(5)
    filled = Archive(Grid([0, 0], [1, 1], [3, 3]), weight_bank(K, 1.0, 12, rng))
    for id_ in range(60):
        rewards = rng.random(K) if id_ % 3 else rng.random(K).round(1)
        # Points in the lower left corner only, so that some cells stay empty.
        filled.add(id_, rewards, rng.random(2) * 0.66, int(rng.integers(20, 90)))
    return filled


def held(archive):
    """Cell -> {id: rewards} of every champion."""
    return {
        cell: dict(
            zip(
                archive.champions(cell).tolist(),
                archive.champion_rewards(cell),
                strict=True,
            )
        )
        for cell in archive.occupied().tolist()
    }


def fits(counts, chances):
    """Whether counts agree with chances: a chi-squared test at one in 10,000."""
    total = sum(counts.values())
    names = [name for name, chance in chances.items() if chance * total >= 5]
    assert not set(counts) - {name for name, chance in chances.items() if chance > 0}
    seen = np.array([counts[name] for name in names] + [0.0])
    expected = np.array([chances[name] * total for name in names] + [0.0])
    seen[-1], expected[-1] = total - seen.sum(), total - expected.sum()
    if expected[-1] < 1e-9:
        seen, expected = seen[:-1], expected[:-1]
    return stats.chisquare(seen, expected).pvalue > 1e-4


def test_uniform_gives_cells_and_then_programs_equal_chances(archive):
    cells = held(archive)
    chances = {id_: 1 / len(cells) / len(cell) for cell in cells.values() for id_ in cell}
    picks = choose(archive, 0, np.random.default_rng(0), 6000, ALONE["uniform"])
    assert fits(Counter(pick.parent for pick in picks), chances)
    for pick in picks:
        assert pick.probability == pytest.approx(chances[pick.parent])
        assert pick.weights == pytest.approx((1 / K,) * K)
        assert pick.parent in cells[pick.cell]


def test_lexicase_agrees_with_going_through_all_orders(archive):
    programs = {id_: r for cell in held(archive).values() for id_, r in cell.items()}
    rewards = np.array(list(programs.values()))
    median = np.median(rewards, axis=0)
    spread = np.median(np.abs(rewards - median), axis=0)
    chances, sizes = dict.fromkeys(programs, 0.0), {}
    for order in permutations(range(K)):
        pool = list(programs)
        for j in order:
            best = max(programs[id_][j] for id_ in pool)
            pool = [id_ for id_ in pool if programs[id_][j] >= best - spread[j]]
        sizes.setdefault(order[0], set()).add(len(pool))
        for id_ in pool:
            chances[id_] += 1 / 6 / len(pool)
    picks = choose(archive, 0, np.random.default_rng(1), 6000, ALONE["lexicase"])
    assert fits(Counter(pick.parent for pick in picks), chances)
    for pick in picks:
        assert sorted(pick.weights) == [0.0, 0.0, 1.0]
        assert round(1 / pick.probability) in sizes[pick.weights.index(1.0)]


def cell_chances(archive, w, temperature):
    cells = held(archive)
    tops = {cell: max(float(r @ w) for r in found.values()) for cell, found in cells.items()}
    values = np.array(list(tops.values()))
    powers = np.exp((values - values.max()) / (temperature * values.std()))
    return dict(zip(tops, powers / powers.sum(), strict=True))


def test_dirichlet_draws_cells_by_the_softmax_and_takes_the_best_there(archive):
    cells = held(archive)
    picks = choose(archive, 0, np.random.default_rng(2), 3000, ALONE["dirichlet"], alpha=0.7)
    weights = np.array([pick.weights for pick in picks])
    # A coordinate of Dir(a, a, a) has mean 1/3 and variance 2 / (9 (3 a + 1)).
    assert weights.mean(axis=0) == pytest.approx(1 / 3, abs=0.03)
    assert weights.var(axis=0) == pytest.approx(2 / (9 * 3.1), rel=0.1)
    seen, expected, variance = Counter(), Counter(), Counter()
    for pick in picks:
        w = np.array(pick.weights)
        chances = cell_chances(archive, w, 0.5)
        assert pick.probability == pytest.approx(chances[pick.cell])
        found = cells[pick.cell]
        assert float(found[pick.parent] @ w) == max(float(r @ w) for r in found.values())
        seen[pick.cell] += 1
        for cell, chance in chances.items():
            expected[cell] += chance
            variance[cell] += chance * (1 - chance)
    for cell in cells:
        assert abs(seen[cell] - expected[cell]) < 4 * variance[cell] ** 0.5


def test_temperature_goes_from_the_best_cell_to_all_cells(archive):
    cold = choose(archive, 0, np.random.default_rng(3), 300, ALONE["dirichlet"], temperature=1e-9)
    for pick in cold:
        chances = cell_chances(archive, np.array(pick.weights), 0.5)
        assert pick.cell == max(chances, key=chances.get)
    hot = choose(archive, 0, np.random.default_rng(3), 3000, ALONE["dirichlet"], temperature=np.inf)
    n = len(archive.occupied())
    assert fits(
        Counter(pick.cell for pick in hot), dict.fromkeys(archive.occupied().tolist(), 1 / n)
    )


def test_a_mixture_uses_its_shares_and_says_so(archive):
    picks = choose(archive, 4, np.random.default_rng(4), 4000, Mixture(2.0, 1.0, 1.0))
    shares = {"dirichlet": 0.5, "lexicase": 0.25, "uniform": 0.25}
    assert fits(Counter(pick.arm for pick in picks), shares)
    assert {pick.island for pick in picks} == {4}
    for pick in picks:
        assert 0 < pick.probability <= shares[pick.arm]


@pytest.mark.parametrize("wanted", [0, 1, 3, 50])
def test_inspirations_come_from_other_cells_all_different(archive, wanted):
    cell_of = {id_: cell for cell, found in held(archive).items() for id_ in found}
    # A program is held in one cell only, since its descriptors are.
    assert len(cell_of) == sum(map(len, held(archive).values()))
    picks = choose(archive, 0, np.random.default_rng(5), 2000, Mixture(), inspirations=wanted)
    seen = Counter()
    for pick in picks:
        cells = [cell_of[id_] for id_ in pick.inspirations]
        assert len(cells) == min(wanted, len(archive.occupied()) - 1)
        assert len({*cells, pick.cell}) == len(cells) + 1
        seen.update(cells)
    if wanted == 1:
        by_parent = Counter(pick.cell for pick in picks)
        n = len(archive.occupied())
        chances = {
            cell: (len(picks) - by_parent[cell]) / (n - 1) / len(picks)
            for cell in archive.occupied().tolist()
        }
        assert fits(seen, chances)


def test_equal_generators_give_equal_picks_and_the_archive_stays(archive):
    before = archive.digest()
    first, again, other = (
        choose(archive, 0, np.random.default_rng(seed), 40, Mixture(), inspirations=2)
        for seed in (6, 6, 7)
    )
    assert first == again != other
    assert archive.digest() == before


def test_one_program_is_every_parent():
    alone = Archive(Grid([0], [1], [4]), weight_bank(2, 1.0, 4, np.random.default_rng(0)))
    alone.add(0, [0.0, 0.0], [0.5], 10)
    for name, mixture in ALONE.items():
        picks = choose(alone, 0, np.random.default_rng(0), 5, mixture)
        assert [pick.parent for pick in picks] == [0] * 5, name
        assert [pick.probability for pick in picks] == [1.0] * 5
        assert all(pick.inspirations == () for pick in picks)


def test_what_is_out_of_range_is_named(archive):
    rng = np.random.default_rng(0)
    for options, text in (
        ({"alpha": 0.0}, "alpha is 0.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"inspirations": -1}, "inspirations -1"),
    ):
        with pytest.raises(ValueError, match=text):
            choose(archive, 0, rng, 1, Mixture(), **options)
    with pytest.raises(ValueError, match="empty"):
        choose(Archive(Grid([0], [1], [4]), archive.bank), 0, rng, 1, Mixture())
    for shares in ((0.0, 0.0, 0.0), (-1.0, 1.0, 1.0), (float("inf"), 1.0, 1.0)):
        with pytest.raises(ValueError, match="mixture"):
            Mixture(*shares)
