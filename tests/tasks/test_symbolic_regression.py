"""The regression judge against the true laws, a hand-made fit and bad answers."""

import math

import numpy as np
import pytest

from evolve.task import Invalid, load_task
from tests.tasks.loading import judge_module, program_of, runner_of

TASK = load_task("symbolic_regression")
JUDGE = judge_module("symbolic_regression")
RUN = runner_of(TASK)

HEAD = "import numpy as np\ndef terms(a, b):\n    return "
EVERY_LAW = HEAD + (
    "[b, np.sin(2 * a), a / (0.6 + a), b / (a * a + b * b) ** 1.5, b * np.exp(-0.8 * a), "
    "np.sqrt(a**3 / b)]"
)


def answer(source, case):
    return RUN(program_of(source), case.given)


def error_by_hand(predictions, y):
    mean = sum(y) / len(y)
    spread = math.sqrt(sum((v - mean) ** 2 for v in y) / len(y))
    miss = math.sqrt(sum((p - v) ** 2 for p, v in zip(predictions, y, strict=True)) / len(y))
    return math.log10(miss / spread)


@pytest.mark.parametrize("case", TASK.cases, ids=lambda case: case.name)
def test_the_true_law_leaves_the_noise(case):
    truth = JUDGE.LAWS[case.name](*case.given["held_out"].T)
    scores = TASK.score(truth, case)
    assert scores[case.name] == pytest.approx(TASK.best_known[case.name][0], abs=1e-4)
    # Noise of 2 % of the spread inside; outside the spread is another.
    assert scores[case.name] == pytest.approx(math.log10(0.02), abs=0.12)
    assert scores[case.name] == pytest.approx(error_by_hand(truth, case.hidden["y"]), abs=1e-12)


@pytest.mark.parametrize("case", TASK.cases, ids=lambda case: case.name)
def test_a_program_with_every_law_comes_within_a_fit_of_the_noise(case):
    floor = TASK.best_known[case.name][0]
    error = TASK.score(answer(EVERY_LAW, case), case)[case.name]
    assert floor - 0.01 < error < floor + 0.15


@pytest.mark.parametrize("case", TASK.cases, ids=lambda case: case.name)
def test_the_fit_is_least_squares(case):
    a, b = case.given["train"].T
    columns = np.stack([np.ones_like(a), a, b], axis=1)
    weights = np.linalg.solve(columns.T @ columns, columns.T @ case.given["y"])
    a, b = case.given["held_out"].T
    expected = weights[0] + weights[1] * a + weights[2] * b
    assert answer(HEAD + "[a, b]", case) == pytest.approx(expected, abs=1e-10)
    # The scale of a term, even an absurd one, changes nothing.
    assert answer(HEAD + "[a * 1e-200, b * 1e200]", case) == pytest.approx(expected, abs=1e-9)


def test_the_mean_of_the_data_earns_nothing():
    for case in TASK.cases:
        y = case.hidden["y"]
        scores = TASK.score(np.full(len(y), y.mean()), case)
        assert scores[case.name] == pytest.approx(0.0, abs=1e-12)
    objective = TASK.objectives[0]
    assert objective.reward(0.0) == 0.0
    assert objective.reward(5.0) == 0.0


def test_an_impossible_hit_is_finite():
    case = TASK.cases[0]
    assert TASK.score(case.hidden["y"], case)[case.name] == -12.0
    huge = [1e300] * len(case.hidden["y"])
    assert math.isfinite(TASK.score(huge, case)[case.name])


def test_no_terms_predict_the_mean_of_the_training_points():
    case = TASK.cases[0]
    assert answer(HEAD + "[]", case) == pytest.approx(
        np.full(JUDGE.HELD_OUT, case.given["y"].mean())
    )


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ("[a] * 7", "7 terms, at most 6"),
        ("[1 / (a - a)]", "a term is not finite"),
        ("[a[:3]]", "broadcast"),
        ("[a] * (1 + (len(a) > 100))", "a different number of terms"),
        ("['a']", "could not convert"),
    ],
)
def test_the_runner_says_what_is_wrong_with_terms(terms, says):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=says):
        answer(HEAD + terms, TASK.cases[0])


def test_a_candidate_cannot_change_the_points():
    case = TASK.cases[0]
    before = case.given["train"].copy()
    spoiling = (
        "import numpy as np\ndef terms(a, b):\n    c = a.copy()\n    a[:] = 0\n    return [c]"
    )
    assert answer(spoiling, case) == pytest.approx(answer(HEAD + "[a]", case))
    assert (case.given["train"] == before).all()


def ones(n=JUDGE.HELD_OUT):
    return [1.0] * n


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "not a flat sequence"),
        (3.0, "not a flat sequence"),
        ("text", "not a flat sequence"),
        ({}, "not a flat sequence"),
        (ones(199), "not a flat sequence of 200"),
        ([ones()], "not a flat sequence of 200"),
        ([*ones(199), [1.0]], "not a flat sequence"),
        (["1.0"] * 200, "not a flat sequence"),
        ([True] * 200, "not a flat sequence"),
        ([1j] * 200, "not a flat sequence"),
        ([*ones(199), 10**400], "not a flat sequence"),
        ([*ones(199), math.nan], "not finite"),
        ([*ones(199), -math.inf], "not finite"),
    ],
)
def test_bad_answers_are_refused_in_words(output, says):
    with pytest.raises(Invalid) as caught:
        TASK.score(output, TASK.cases[0])
    assert says in str(caught.value)


def test_size_counts_syntax_nodes():
    # Module, FunctionDef, arguments, two args, Return, List, BinOp, Name, Add, Constant: 11.
    assert TASK.inspect("def terms(a, b):\n    return [a + 1]\n") == {"size": 11.0}
    said = 'def terms(a, b):\n    """Say it."""\n    return [a + 1]  # why\n'
    assert TASK.inspect(said) == {"size": 11.0}


@pytest.mark.parametrize(
    "source",
    [
        "import scipy",
        "from scipy import optimize",
        "from . import x",
        "eval('a + b')",
        "exec('x = 1')",
        "__import__('os')",
        "__builtins__",
    ],
)
def test_a_formula_cannot_hide_in_text(source):
    with pytest.raises(Invalid, match="is not allowed in a formula"):
        TASK.inspect(source)


def test_data_depend_on_the_seed_alone():
    for a, b, c in zip(TASK.cases, JUDGE.make_cases(), JUDGE.make_cases(1), strict=True):
        assert all((a.given[key] == b.given[key]).all() for key in a.given)
        assert (a.hidden["y"] == b.hidden["y"]).all()
        assert not (a.given["y"] == c.given["y"]).any()
        # What is held out is not among what is given.
        assert not set(map(tuple, a.given["train"])) & set(map(tuple, a.given["held_out"]))
