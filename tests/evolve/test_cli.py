"""What a newcomer does wrong first: one line that says what, where and what is allowed; exit 2."""

import re

import pytest


def refused(command, *arguments):
    """The one line that a refused command prints."""
    result = command(*arguments, code=2)
    assert result.stderr.startswith("error: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert "Traceback" not in result.stderr + result.stdout
    return result.stderr


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


RUN = ("--policy", "mutate", "--evaluations", "20", "--out")


def test_an_unknown_task_is_answered_with_the_shipped_ones(command, tmp_path):
    line = refused(command, "run", "circle_paking", *RUN, tmp_path / "r")
    assert "unknown task 'circle_paking'" in line
    assert "circle_packing" in line
    assert not (tmp_path / "r").exists()


def test_a_bad_configuration_names_file_and_line(command, toy_task, tmp_path):
    config = tmp_path / "c.toml"
    config.write_text("[search\n")
    line = refused(command, "run", toy_task, "--config", config, *RUN, tmp_path / "r")
    assert str(config) in line
    assert "line 1" in line


def test_an_unknown_policy_and_field_are_answered_with_what_is_allowed(command, toy_task, tmp_path):
    line = refused(command, "run", toy_task, "--policy", "gpt", "--out", tmp_path / "r")
    assert "policy 'gpt'" in line
    assert "hf:NAME_OR_PATH" in line
    line = refused(command, "run", toy_task, "--set", "search.promts=3", *RUN, tmp_path / "r")
    assert "'search.promts'" in line
    assert "prompts" in line


@pytest.mark.parametrize("verb", ["run", "check"])
@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("task.py", "    error = sum", "    raise KeyError('radius')\n    error = sum",
         r"task\.py.*line \d+.*KeyError.*radius"),
        ("initial.py", "def solve(x)", "def other(x)", r"initial\.py.*solve"),
        ("initial.py", "# EVOLVE-BLOCK-END\n", "", r"initial\.py.*EVOLVE-BLOCK-END"),
        ("initial.py", "y = x * 2 + 1", "y = x * * 2", r"initial\.py.*line \d+"),
        ("initial.py", "y = x * 2 + 1", "y = x / 0", r"initial\.py.*ZeroDivisionError"),
        ("task.py", "{case.name: error}", "{}", r"task\.py.*'square'"),
        ("task.py", "{case.name: error}", "{case.name: float('nan')}", r"task\.py.*nan"),
        ("task.py", "{case.name: error}", "None", r"task\.py.*None"),
        ("task.py", "objectives=[Objective(name, 0.0, 10.0, \"min\") for name in TARGETS]",
         "objectives=[]", r"task\.py.*objectives is empty"),
        ("task.py", "TASK = Task(", "TUSK = Task(", r"task\.py.*TASK"),
        ("task.py", "Descriptor(\"cyclomatic\"", "Descriptor(\"colour\"", r"task\.py.*'colour'"),
        ("run.py", "def run(", "def runs(", r"run\.py.*run\(program, given\)"),
        ("run.py", "return [", "return [[", r"run\.py.*line 2"),
    ],
)  # fmt: skip
def test_a_faulty_task_is_explained_in_one_line(
    command, toy_task, tmp_path, verb, file, old, new, named
):
    edit(toy_task / file, old, new)
    arguments = (*RUN, tmp_path / "r") if verb == "run" else ()
    line = refused(command, verb, toy_task, *arguments)
    assert re.search(named, line), line
    assert not (tmp_path / "r" / "config.toml").exists()


def test_a_model_that_is_not_there_is_one_line(command, toy_task, tmp_path):
    line = refused(
        command, "run", toy_task, "--policy", f"hf:{tmp_path}/none", "--out", tmp_path / "r"
    )
    assert "none" in line
    assert not (tmp_path / "r").exists()


def test_folders_that_hold_no_run(command, tmp_path):
    for verb in ("resume", "show", "plot"):
        assert "not a run folder" in refused(command, verb, tmp_path)
    assert "no runs below" in refused(command, "ls", tmp_path)


def test_a_finished_run_is_shown_and_listed(command, toy_task, tmp_path):
    folder = tmp_path / "r"
    out = command("run", toy_task, "--set", "search.prompts=4", *RUN, folder).stdout
    assert re.search(r"best program \d+: mean reward 0\.\d+", out)
    shown = command("show", folder).stdout
    assert "def solve(x)" in shown
    assert "starting program" in shown
    assert "square" in shown
    assert "20 evaluated" in command("ls", tmp_path).stdout
    assert {path.suffix for path in (folder / "plots").iterdir()} >= {".png"}


def test_a_run_does_not_go_on_with_another_judge(command, toy_task, tmp_path):
    folder = tmp_path / "r"
    command("run", toy_task, *RUN, folder)
    before = command("show", folder).stdout
    edit(toy_task / "task.py", "/ len(XS)", "/ (2 * len(XS))")
    line = refused(command, "resume", folder)
    assert "its files are not those with which" in line
    assert str(toy_task) in line
    edit(toy_task / "task.py", "/ (2 * len(XS))", "/ len(XS)")
    command("resume", folder)
    assert command("show", folder).stdout == before


def test_a_finished_run_goes_on_when_its_budget_is_raised(command, toy_task, tmp_path):
    folder = tmp_path / "r"
    command("run", toy_task, *RUN, folder)
    out = command("resume", folder).stdout
    assert f"the budget is used up; to go on, raise it in {folder / 'config.toml'}" in out
    edit(folder / "config.toml", "evaluations = 20\n", "evaluations = 30\n")
    assert "30 evaluated" in command("resume", folder).stdout


def test_a_task_that_has_moved_can_be_named_again(command, toy_task, tmp_path):
    folder = tmp_path / "r"
    command("run", toy_task, *RUN, folder)
    moved = toy_task.rename(tmp_path / "moved")
    line = refused(command, "resume", folder)
    assert f"give its place as task in {folder / 'config.toml'}" in line
    edit(folder / "config.toml", str(toy_task), str(moved))
    command("resume", folder)


def test_a_judge_that_exits_is_a_judge_that_fails(command, toy_task, tmp_path):
    edit(toy_task / "task.py", "    error = sum", "    raise SystemExit(3)\n    error = sum")
    for verb in (("run", toy_task, *RUN, tmp_path / "r"), ("check", toy_task)):
        line = refused(command, *verb)
        assert re.search(r"task\.py.*line \d+.*SystemExit.*3", line), line


def test_a_round_too_large_to_prepare_is_refused(command, toy_task, tmp_path):
    line = refused(command, "run", toy_task, "--set", "search.prompts=1e9", *RUN, tmp_path / "r")
    assert "search.prompts" in line
    assert "4096" in line
