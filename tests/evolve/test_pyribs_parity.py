"""The archive with the uniform weight alone against pyribs 0.12, add for add.

``value`` differs by definition where nothing changes: pyribs gives the (negative) difference to
the elite, this archive 0; and in a batch pyribs judges every member against the archive as it was
before, this archive one after the other.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ribs.archives import CVTArchive, GridArchive

from evolve.archive import STATUSES, Archive, uniform_bank
from evolve.tessellation import Cvt, Grid, make_cvt

# The same examples every time, and no clock.
steady = settings(deadline=None, derandomize=True, max_examples=50)

CENTROIDS = make_cvt([-1, -1], [1, 1], 25, np.random.default_rng(0)).centroids
KINDS = ("grid", "cvt", "one cell")

# Coarse values make ties in objective; measures reach beyond the bounds on all sides, and tenths
# hit boundaries of the grid.
objective = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.floats(-100, 100))
measure = st.one_of(st.integers(-20, 20).map(lambda tenths: tenths / 10), st.floats(-3, 3))
stream = st.lists(st.tuples(objective, measure, measure), min_size=1, max_size=80)


def pair(kind):
    """An archive of pyribs and one of ours with the same cells."""
    peer = {"solution_dim": (), "solution_dtype": np.int64}
    ours = Archive
    if kind == "cvt":
        box = [(-1, 1), (-1, 1)]
        cells = Cvt([-1, -1], [1, 1], CENTROIDS)
        return CVTArchive(centroids=CENTROIDS, ranges=box, **peer), ours(cells, uniform_bank(1))
    dims = (1, 1) if kind == "one cell" else (10, 7)
    # pyribs moves a point up by 1e-6 in the unit of the measure, this grid by 1e-6 of a cell;
    # bounds one apart make the two rules the same.
    low = (-0.5, 0.1)
    peers = GridArchive(dims=dims, ranges=[(a, a + 1.0) for a in low], **peer)
    return peers, ours(Grid(low, [a + 1.0 for a in low], dims), uniform_bank(1))


def agree(peers, ours):
    """Compare the whole of both archives."""
    theirs = peers.data(["index", "solution", "objective"], return_type="dict")
    order = np.argsort(theirs["index"])
    cells = ours.occupied()
    np.testing.assert_array_equal(cells, theirs["index"][order])
    elites = [int(ours.champions(cell)[0]) for cell in cells.tolist()]
    assert elites == theirs["solution"][order].tolist()
    np.testing.assert_array_equal(ours.scores()[:, 0], theirs["objective"][order])
    figures, stats = ours.metrics(), peers.stats
    assert figures.n_cells == figures.n_programs == stats.num_elites
    assert figures.coverage == pytest.approx(float(stats.coverage), abs=1e-12)
    assert figures.qd_score == pytest.approx(float(stats.qd_score), abs=1e-9)
    assert figures.best_mean == figures.best[0] == peers.best_elite["objective"] == stats.obj_max


@pytest.mark.parametrize("kind", KINDS)
@steady
@given(drawn=stream)
def test_single_adds_agree(kind, drawn):
    peers, ours = pair(kind)
    for id_, (value, x, y) in enumerate(drawn):
        theirs = peers.add_single(id_, value, (x, y))
        added = ours.add(id_, [value], [x, y], 1)
        assert added.status == STATUSES[theirs["status"]]
        assert added.cell == peers.index_of_single((x, y))
        expected = theirs["value"] if theirs["status"] else 0.0
        assert added.value == pytest.approx(float(expected), abs=1e-9)
        # Of equal elites in several cells the first that came is the best. (After a batch pyribs
        # names the one in the lowest cell.)
        assert [leader[0] for leader in ours.leaders()] == [peers.best_elite["solution"]]
    agree(peers, ours)


@pytest.mark.parametrize("kind", KINDS)
@steady
@given(drawn=stream, size=st.integers(1, 80))
def test_batches_leave_the_same_archive(kind, drawn, size):
    peers, ours = pair(kind)
    values, points = np.array([d[0] for d in drawn]), np.array([d[1:] for d in drawn])
    for start in range(0, len(drawn), size):
        part = slice(start, start + size)
        ids = np.arange(len(drawn))[part]
        theirs = peers.add(ids, values[part], points[part])
        before = set(ours.occupied().tolist())
        batch = ours.add_batch(ids, values[part, None], points[part], np.ones(len(ids)))
        seen = set()
        for i, cell in enumerate(batch.cell.tolist()):
            if cell not in seen:
                # The first of a cell meets the same archive on both sides.
                assert batch.status[i] == theirs["status"][i]
                gain = theirs["value"][i] if theirs["status"][i] else 0.0
                assert batch.value[i] == pytest.approx(float(gain), abs=1e-9)
            elif batch.status[i]:
                # A later one that got in improved on a new cell or on an old one.
                assert theirs["status"][i] == (1 if cell in before else 2)
            seen.add(cell)
        agree(peers, ours)


@pytest.mark.parametrize("kind", ["grid", "cvt"])
def test_a_long_stream_of_means_agrees(kind):
    rng = np.random.default_rng(7)
    rewards, points = rng.random((3000, 4)), rng.uniform(-1.2, 1.2, (3000, 2))
    rewards[::3] = np.round(rewards[::3], 1)
    peers, ours = pair(kind)
    ours = Archive(ours.cells, uniform_bank(4))
    means = ours.bank.rows_of_scores(rewards)[:, 0]
    for id_ in range(1500):
        theirs = peers.add_single(id_, means[id_], points[id_])
        added = ours.add(id_, rewards[id_], points[id_], 1)
        assert added.status == STATUSES[theirs["status"]]
        assert added.value == pytest.approx(max(0.0, float(theirs["value"])), abs=1e-12)
    rest = np.arange(1500, 3000)
    peers.add(rest, means[rest], points[rest])
    ours.add_batch(rest, rewards[rest], points[rest], np.ones(1500))
    elites = [int(ours.champions(cell)[0]) for cell in ours.occupied().tolist()]
    assert elites == [solution for _, solution in sorted_solutions(peers)]
    assert ours.metrics().qd_score == pytest.approx(float(peers.stats.qd_score), abs=1e-9)


def sorted_solutions(peers):
    theirs = peers.data(["index", "solution"], return_type="dict")
    return sorted(zip(theirs["index"].tolist(), theirs["solution"].tolist(), strict=True))


def test_both_refuse_what_is_not_finite():
    for kind in KINDS:
        peers, ours = pair(kind)
        for value, point in ((np.nan, (0, 0)), (np.inf, (0, 0)), (1.0, (np.nan, 0))):
            with pytest.raises(ValueError, match="finite"):
                peers.add_single(0, value, point)
            with pytest.raises(ValueError, match="finite"):
                ours.add(0, [value], point, 1)
