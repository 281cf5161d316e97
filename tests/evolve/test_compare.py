"""Groups of runs against each other: figures computed in other ways, and what is refused."""

import shutil
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from evolve.compare import compare_runs, table_lines
from evolve.config import dump_config, load_config
from evolve.effects import improvement, median_band, median_difference, rank_test
from evolve.errors import StoreError
from evolve.plots import plot_comparison
from evolve.store import Store
from tests.evolve.conftest import Command, write_toy_task

SMALL = ("--policy", "mutate", "--set", "search.prompts=4", "--set", "search.rollouts=2")


def rng():
    return np.random.default_rng(7)


def every_draw(values):
    """All n^n equally likely bootstrap draws of n values."""
    return [np.array(draw) for draw in product(values, repeat=len(values))]


def test_the_interval_of_a_median_agrees_with_counting_every_draw():
    values = np.array([0.3, 0.9, 0.1, 0.5, 0.7])
    middle, low, high = median_band(np.stack([values, 2 * values], axis=1), rng())
    medians = [np.median(draw) for draw in every_draw(values)]
    assert middle.tolist() == [0.5, 1.0]
    # The quantiles fall well inside a step of the exact law: every number of draws finds them.
    assert low[0] == np.quantile(medians, 0.025) == 0.1
    assert high[0] == np.quantile(medians, 0.975) == 0.9
    assert (low[1], high[1]) == (2 * low[0], 2 * high[0])


def test_the_probability_of_improvement_agrees_with_counting_every_draw():
    x, y = np.array([0.2, 0.5, 0.5]), np.array([0.1, 0.5, 0.3])

    def share(a, b):
        return np.mean([1.0 if i > j else 0.5 if i == j else 0.0 for i, j in product(a, b)])

    found = improvement(x, y, rng())
    exact = [share(a, b) for a in every_draw(x) for b in every_draw(y)]
    assert found.value == pytest.approx(share(x, y)) == pytest.approx(6 / 9)
    assert found.low == pytest.approx(np.quantile(exact, 0.025), abs=0.06)
    assert found.high == pytest.approx(np.quantile(exact, 0.975), abs=0.06)
    # Vargha and Delaney's A, as scipy has it.
    statistic = stats.mannwhitneyu(x, y).statistic
    assert found.value == pytest.approx(statistic / 9)
    assert improvement(y, x, rng()).value == pytest.approx(1 - found.value)


def test_the_difference_of_medians_agrees_with_counting_every_draw():
    x, y = np.array([3.0, 5.0, 4.0]), np.array([1.0, 2.5, 0.0])
    found = median_difference(x, y, rng())
    exact = [np.median(a) - np.median(b) for a in every_draw(x) for b in every_draw(y)]
    assert found.value == 3.0
    assert found.low == np.quantile(exact, 0.025)
    assert found.high == np.quantile(exact, 0.975)


@pytest.mark.parametrize(("n", "m"), [(3, 3), (4, 6), (5, 2)])
def test_the_rank_test_agrees_with_scipy(n, m):
    draw = rng()
    x, y = draw.normal(size=n), draw.normal(0.7, size=m)
    exact = stats.mannwhitneyu(x, y, method="exact").pvalue
    assert rank_test(x, y) == pytest.approx(exact)
    # With ties scipy's exact law does not hold, but its permutations do.
    x, y = draw.integers(0, 3, n) / 3, draw.integers(0, 3, m) / 3
    permuted = stats.mannwhitneyu(x, y, method=stats.PermutationMethod(n_resamples=10**6)).pvalue
    assert rank_test(x, y) == pytest.approx(permuted)


def test_the_rank_test_of_many_runs_is_the_normal_one():
    x, y = rng().normal(size=30), rng().normal(0.3, size=40)
    assert rank_test(x, y) == stats.mannwhitneyu(x, y, method="asymptotic").pvalue


def test_three_runs_each_that_do_not_overlap_are_not_significant():
    x, y = np.array([0.7, 0.8, 0.9]), np.array([0.1, 0.2, 0.3])
    assert improvement(x, y, rng()).value == 1.0
    assert rank_test(x, y) == pytest.approx(2 / 20)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two groups of a toy task, with two seeds each and budgets of their own."""
    place = tmp_path_factory.mktemp("compare")
    task = write_toy_task(place)
    folders = []
    for uniform, evaluations in (("0.2", 60), ("0.9", 40)):
        for seed in (0, 1):
            folder = place / f"u{uniform}-s{seed}"
            options = ("--set", f"search.uniform={uniform}", "--seed", seed)
            budget = ("--evaluations", evaluations, "--out", folder)
            Command()("run", task, *SMALL, *options, *budget)
            folders.append(folder)
    return folders


def test_groups_are_read_at_the_budget_that_all_have_reached(runs):
    comparison = compare_runs(runs)
    assert [group.name for group in comparison.groups] == [
        "search.uniform=0.2",
        "search.uniform=0.9",
    ]
    assert [group.seeds for group in comparison.groups] == [(0, 1), (0, 1)]
    assert comparison.axis[0] == 0
    assert comparison.axis[-1] == 40
    for number, group in enumerate(comparison.groups):
        for row, folder in enumerate(runs[2 * number : 2 * number + 2]):
            with Store(folder) as store:
                rounds = store.rounds()
                start = store.evaluation(0).rewards
            assert group.curves["best_mean"][row, 0] == pytest.approx(np.mean(start))
            for name in ("best_mean", "coverage", "qd_score"):
                for entry in rounds:
                    if entry["evaluations"] <= 40:
                        (place,) = np.flatnonzero(comparison.axis == entry["evaluations"])
                        assert group.curves[name][row, place] == pytest.approx(entry[name])


def test_the_table_holds_medians_and_effects(runs, command, tmp_path):
    comparison = compare_runs(runs)
    first, second = (group.final("qd_score") for group in comparison.groups)
    row = next(r for r in comparison.rows if (r.figure, r.group) == ("qd_score", 1))
    assert row.median.value == pytest.approx(second.mean())
    assert row.difference.value == pytest.approx(second.mean() - first.mean())
    wins = [(b > a) + 0.5 * (b == a) for a in first for b in second]
    assert row.improvement.value == pytest.approx(np.mean(wins))
    lines = list(table_lines(comparison))
    assert lines == list(table_lines(compare_runs(runs)))
    out = command("compare", *runs, "--out", tmp_path / "pictures").stdout
    assert out.startswith("\n".join(lines))
    assert f"{row.median.value:.4f}" in out
    assert "too few" in out
    for suffix in ("png", "svg"):
        assert (tmp_path / "pictures" / f"comparison.{suffix}").stat().st_size > 5000
    ElementTree.parse(tmp_path / "pictures" / "comparison.svg")


def test_one_run_a_group_has_no_interval_and_still_a_picture(runs, tmp_path):
    comparison = compare_runs([runs[0], runs[2]])
    assert all(np.isnan(row.median.low) for row in comparison.rows)
    assert "nan" not in "\n".join(table_lines(comparison))
    plot_comparison(comparison, tmp_path)
    assert "nan" not in (tmp_path / "comparison.svg").read_text().lower().replace("dominant", "")


def changed(folder, to, **fields):
    """A copy of a run that claims another configuration."""
    shutil.copytree(folder, to)
    settings = [f"{name.replace('__', '.')}={value}" for name, value in fields.items()]
    config = load_config(to / "config.toml", settings)
    (to / "config.toml").write_text(dump_config(config))
    return to


def test_figures_that_mean_different_things_are_left_out(runs, tmp_path):
    other = changed(runs[0], tmp_path / "cvt", search__cells='"cvt"', search__cvt_cells=16)
    comparison = compare_runs([runs[0], other])
    assert list(comparison.bands) == ["best_mean", "set_utility"]
    text = "\n".join(table_lines(comparison))
    assert "not compared: coverage, which depends on search.cells" in text
    plot_comparison(comparison, tmp_path)


def test_what_cannot_be_compared_is_one_line(runs, command, tmp_path):
    def refused(*folders):
        error = command("compare", *folders, "--out", tmp_path / "none", code=2).stderr
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert not (tmp_path / "none").exists()
        return error

    assert "one configuration but for the seed" in refused(*runs[:2])
    assert "one configuration but for the seed" in refused(runs[0])
    assert "same configuration and seed" in refused(runs[0], runs[0])
    assert "not a run folder" in refused(runs[0], tmp_path)


def test_different_tasks_are_refused_and_a_copy_is_not(runs, tmp_path):
    task = shutil.copytree(load_config(runs[2] / "config.toml").task, tmp_path / "moved")
    other = changed(runs[2], tmp_path / "run", task=f'"{task}"')
    assert len(compare_runs([runs[0], other]).groups) == 2
    (task / "task.py").write_text((task / "task.py").read_text() + "\n# another judge\n")
    with pytest.raises(StoreError, match="only runs of one task can be compared"):
        compare_runs([runs[0], other])
