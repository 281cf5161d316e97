"""Programs of several files: one text, blocks in any of them, edits that stay in the blocks."""

import numpy as np
import pytest

from evolve.canonical import canonical_view, raw_view
from evolve.check import mutants_of
from evolve.descriptors import text_length
from evolve.edits import apply_answer, parse_completion
from evolve.errors import ConfigError, TaskError
from evolve.evaluate import evaluate, open_pool
from evolve.files import File, files_of, is_python, join_files, place_of
from evolve.mutate import propose_with_operators
from evolve.policy import check_language
from evolve.program import ProgramError, check, fingerprint, parse_source, split_blocks
from evolve.prompts import Shown, instruct, numbered
from evolve.sandbox import Status
from evolve.store import Store
from evolve.task import load_task

INITIAL = """\
import helper

# EVOLVE-BLOCK-START
def solve(x):
    y = helper.half(x) + 3
    return helper.clip(y * 2 + 1, 50)
# EVOLVE-BLOCK-END

LAST = helper.half(4)
"""
HELPER = """\
'''What solve needs.'''
LIMIT = 100


# EVOLVE-BLOCK-START
def half(value):
    return value / 2
# EVOLVE-BLOCK-END


def clip(value, most=LIMIT):
    return min(value, most)
"""
BOTH = join_files([("initial.py", INITIAL), ("helper.py", HELPER)])
C = """\
#include <stdio.h>
/* EVOLVE-BLOCK-START */
static double f(double x) {
    double y = 1.5 * x;
    double z = y + 2;
    if (z < 3)
        z = z - 1.0;
    return y * z;
}
/* EVOLVE-BLOCK-END */
int main(void) { double x; while (scanf("%lf", &x) == 1) printf("%f\\n", f(x)); }
"""
IN_C = join_files([("main.c", C)])


def answers(view, completion, form="line"):
    return [apply_answer(view, answer) for answer in parse_completion(completion, form, 9)]


def test_a_program_is_one_text_and_comes_apart_again():
    assert BOTH.startswith("# EVOLVE-FILE initial.py\nimport helper\n")
    assert files_of(BOTH) == (File("initial.py", INITIAL, 1), File("helper.py", HELPER, 11))
    assert BOTH.split("\n")[11] == "'''What solve needs.'''"
    assert place_of(BOTH, 12) == "helper.py line 2"
    assert place_of(BOTH, 3) == "initial.py line 3"
    assert files_of(INITIAL) == ()
    assert place_of(INITIAL, 3) == "line 4"
    assert (is_python(INITIAL), is_python(BOTH), is_python(IN_C)) == (True, True, False)
    # A file without a last line end gets one, an empty one is a line.
    rough = join_files([("a.py", "x = 1"), ("b.py", "")])
    assert [file.text for file in files_of(rough)] == ["x = 1\n", "\n"]
    with pytest.raises(ValueError, match=r"b\.py: a line begins with '# EVOLVE-FILE'"):
        join_files([("a.py", ""), ("b.py", "\n# EVOLVE-FILE c.py\n")])


def test_blocks_know_their_file_and_end_in_it():
    first, second = split_blocks(BOTH)
    assert (first.file, second.file) == ("initial.py", "helper.py")
    assert second.lines == ("def half(value):", "    return value / 2")
    assert BOTH.split("\n")[second.first : second.last + 1] == list(second.lines)
    (block,) = split_blocks(IN_C)
    assert block.lines[0] == "static double f(double x) {"
    start, end = "# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-END\n"
    across = join_files([("a.py", f"x = 1\n{start}"), ("b.py", end)])
    with pytest.raises(ProgramError, match=r"^a\.py line 2: EVOLVE-BLOCK-START without"):
        split_blocks(across)
    with pytest.raises(ProgramError, match=r"^b\.py line 1: EVOLVE-BLOCK-END without a start"):
        split_blocks(join_files([("a.py", start + end), ("b.py", end)]))
    # In Python the sign of a comment is #; what only looks like a marker is none.
    with pytest.raises(ProgramError, match="no evolve block"):
        split_blocks(join_files([("a.py", "// EVOLVE-BLOCK-START\n// EVOLVE-BLOCK-END\n")]))


@pytest.mark.parametrize("sign", ["#", "//", "--", ";", "%", "/*", "(*", "<!--", "!"])
def test_a_marker_may_stand_after_any_sign_of_a_comment(sign):
    text = f"a\n  {sign} EVOLVE-BLOCK-START\nb\n{sign}EVOLVE-BLOCK-END */\n"
    (block,) = split_blocks(join_files([("main.xyz", text)]))
    assert block.lines == ("b",)


def test_python_files_are_checked_one_by_one():
    assert check(BOTH).undefined == frozenset()
    # LIMIT is there in the other file alone.
    lacking = BOTH.replace("+ 3\n", "+ LIMIT\n")
    assert check(lacking).undefined == {"LIMIT"}
    broken = BOTH.replace("value / 2", "value / / 2")
    for look in (check, parse_source):
        with pytest.raises(SyntaxError) as caught:
            look(broken)
        assert (caught.value.filename, caught.value.lineno) == ("helper.py", 7)
    tree = parse_source(BOTH)
    assert [node.name for node in tree.body if hasattr(node, "name")] == ["solve", "half", "clip"]
    assert tree.body[-1].lineno == BOTH.split("\n").index("def clip(value, most=LIMIT):") + 1


def test_a_fingerprint_tells_what_stands_in_which_file():
    renamed = BOTH.replace("y = ", "z = ").replace("(y ", "(z ").replace("3\n", "3  # a remark\n")
    assert fingerprint(BOTH) == fingerprint(renamed)
    assert fingerprint(BOTH) != fingerprint(BOTH.replace("value / 2", "value / 3"))
    one = join_files([("a.py", "import b\nx = 1\n"), ("b.py", "y = 2\n")])
    other = join_files([("a.py", "import b\n"), ("b.py", "x = 1\ny = 2\n")])
    assert fingerprint(one) != fingerprint(other)
    # A parameter's name matters where a call in another file uses it.
    calls = join_files(
        [("a.py", "import b\nb.f(size=1)\n"), ("b.py", "def f(size): return size\n")]
    )
    renamed = calls.replace("def f(size): return size", "def f(s): return s")
    assert fingerprint(calls) != fingerprint(renamed)
    assert fingerprint(calls.replace("size=1", "1")) == fingerprint(renamed.replace("size=1", "1"))


def test_of_another_language_the_text_counts_but_for_blanks_at_line_ends():
    assert fingerprint(IN_C) == fingerprint(IN_C.replace("return y * z;", "return y * z;  \t"))
    assert fingerprint(IN_C) != fingerprint(IN_C.replace("return y * z;", "return y  * z;"))
    assert check(IN_C).undefined == frozenset()
    with pytest.raises(SyntaxError, match="not Python"):
        parse_source(IN_C)
    assert text_length(IN_C) == sum(len(line.rstrip()) for line in C.splitlines())


def test_line_edits_reach_the_blocks_of_all_files():
    view = canonical_view(BOTH)
    assert view.files == ("initial.py", "helper.py")
    assert view.counts == (3, 2)
    assert view.lines[4] == "    return v4 / 2"
    (applied,) = answers(view, "@1\n5=    return v4 / 4\n")
    assert applied.fault is None
    first, second = files_of(applied.source)
    assert first.text == INITIAL
    assert second.text == HELPER.replace("value / 2", "value / 4")
    bad, syntax, lacks = answers(view, "@1\n6=x\n@2\n5=    return (\n@3\n5=    return LAST\n")
    assert (bad.fault, bad.detail) == ("bad_line", "no line 6; the lines are 1 to 5")
    assert syntax.fault == "syntax"
    assert syntax.detail.startswith("helper.py line 7: ")
    assert (lacks.fault, lacks.detail) == ("undefined_name", "LAST")


def hunk(search, replace):
    return f"<answer 1>\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n</answer>"


@pytest.mark.parametrize(
    ("search", "says"),
    [
        ("LIMIT = 100", "SEARCH not found in a block: LIMIT = 100 (helper.py line 2)"),
        ("import helper", "SEARCH not found in a block: import helper (initial.py line 1)"),
        ("# EVOLVE-FILE helper.py", "SEARCH holds a block marker"),
        ("# EVOLVE-BLOCK-END", "SEARCH holds a block marker"),
    ],
)
def test_an_edit_outside_the_blocks_is_refused_by_a_name_of_its_own(search, says):
    (applied,) = answers(raw_view(BOTH), hunk(search, "LIMIT = 1"), "search_replace")
    assert (applied.source, applied.fault, applied.detail) == (None, "outside_block", says)


@pytest.mark.parametrize(
    "line", ["# EVOLVE-FILE run.py", "# EVOLVE-FILE helper.py", "# EVOLVE-BLOCK-END"]
)
def test_no_edit_begins_a_file_or_ends_a_block(line):
    for program in (BOTH, INITIAL):
        (applied,) = answers(raw_view(program), f"@1\n1+{line}")
        assert (applied.source, applied.fault) == (None, "outside_block")
    (applied,) = answers(raw_view(IN_C), "@1\n1+// EVOLVE-BLOCK-END")
    assert applied.fault == "outside_block"


def test_edits_of_another_language_need_no_parser():
    view = raw_view(IN_C)
    broken, same, new = answers(
        view, "@1\n1=static (\n@2\n2+\t\n2-\n2+    double y = 1.5 * x;  \n@3\n6-"
    )
    assert broken.fault is None
    assert same.fault is None or same.fault == "no_op"
    assert new.fault is None
    assert "int main(void)" in new.source
    (found,) = answers(view, hunk("double z = y + 2;", "double z = y + 4;"), "search_replace")
    assert "    double z = y + 4;\n" in found.source
    whole = "<answer 1>\n```c\n// EVOLVE-BLOCK-START\nint f;\n// EVOLVE-BLOCK-END\n```\n</answer>"
    (block,) = answers(view, whole, "block")
    assert block.source == IN_C.replace("\n".join(split_blocks(IN_C)[0].lines), "int f;")


def test_prompts_name_the_files_and_the_language(toy_task):
    task = load_task(toy_task)
    three = (0.5, 0.5, 0.5)

    def shown(view):
        return Shown(task, view, three, three, "", ((view, three),), 2, (0, 0, 0))

    view = raw_view(BOTH)
    lines = numbered(view).split("\n")
    assert lines[0] == "--- initial.py ---"
    assert lines[4:6] == ["--- helper.py ---", "4 def half(value):"]
    assert numbered(raw_view(INITIAL)).startswith("1 def solve(x):")
    assert "```python\n--- initial.py ---\n1 def" in instruct(shown(view), "line")
    text = instruct(shown(raw_view(IN_C)), "block")
    assert "python" not in text
    assert text.count("```c\n") == 3


def test_the_scripted_mutator_edits_every_file():
    mutants = mutants_of(BOTH, 40, np.random.default_rng(0))
    assert len(mutants) == 40
    before = (INITIAL, HELPER)
    changed = {
        file.name
        for mutant in mutants
        for file, text in zip(files_of(mutant), before, strict=True)
        if file.text != text
    }
    assert changed == {"initial.py", "helper.py"}
    for mutant in mutants:
        check(mutant)
        assert len(split_blocks(mutant)) == 2


def test_the_scripted_mutator_edits_other_languages_by_lines_numbers_and_operators():
    view = canonical_view(IN_C)
    assert view == raw_view(IN_C)
    text, operators = propose_with_operators(view, np.random.default_rng(1), 30)
    assert propose_with_operators(view, np.random.default_rng(1), 30) == (text, operators)
    assert set(operators) == {"number", "operator", "delete", "duplicate", "swap"}
    applied = answers_all(view, text)
    assert len(applied) == 30
    assert all(a.fault in (None, "no_op") for a in applied)
    sources = {a.source for a in applied if a.source}
    assert len(sources) > 20
    for source in sources:
        # Whatever was moved, brackets still pair and nothing outside the block has changed.
        (block,) = split_blocks(source)
        inside = "".join(block.lines)
        assert all(inside.count(a) == inside.count(b) for a, b in ("{}", "()"))
        assert source.replace("\n".join(block.lines), "") == IN_C.replace(
            "\n".join(split_blocks(IN_C)[0].lines), ""
        )


def answers_all(view, completion):
    return [apply_answer(view, answer) for answer in parse_completion(completion, "line", 99)]


def test_pocket_is_refused_for_another_language():
    for name in ("mutate", "smollm2", "hf:x"):
        check_language(name, IN_C)
    check_language("pocket", BOTH)
    with pytest.raises(ConfigError) as caught:
        check_language("pocket", IN_C)
    assert str(caught.value).startswith("policy 'pocket' edits Python alone, the program is main.c")


@pytest.fixture
def two_files(toy_task):
    """The toy task, its program in two files."""
    (toy_task / "initial.py").write_text(INITIAL)
    (toy_task / "helper.py").write_text(HELPER)
    text = (toy_task / "task.py").read_text()
    (toy_task / "task.py").write_text(
        text.replace("    preload=(),", '    preload=(), files=("initial.py", "helper.py"),')
    )
    return toy_task


def test_files_import_each_other_in_the_sandbox_and_errors_name_them(two_files):
    task = load_task(two_files)
    assert task.initial == BOTH
    half, failed, broken = "return value / 2", Status.EXCEPTION, Status.SYNTAX_ERROR
    programs = {
        BOTH: (Status.OK, ""),
        BOTH.replace(half, "import initial; return 2.0"): (Status.OK, ""),
        BOTH.replace(half, "return value / 0"): (failed, "helper.py line 7: ZeroDivisionError"),
        BOTH.replace(half, "import missing"): (failed, "helper.py line 7: ModuleNotFoundError"),
        BOTH.replace("helper.clip(y", "clip(y"): (failed, "initial.py line 6: NameError"),
        BOTH.replace("half(value)", "other(value)"): (failed, "initial.py line 9: AttributeError"),
        BOTH.replace(half, "return value / / 2"): (broken, "helper.py line 7: invalid syntax"),
        # It parses, and does not compile.
        BOTH.replace(half, "nonlocal x"): (broken, "helper.py line 7: SyntaxError"),
    }
    with open_pool(task, 1) as pool:
        for source, (status, says) in programs.items():
            verdict = evaluate(task, source, pool)
            assert verdict.status == status, (source, verdict)
            assert says in verdict.feedback, (source, verdict.feedback)
        # No file of one candidate is there for the next.
        plain = INITIAL.replace("import helper\n", "").replace("LAST = helper.half(4)\n", "")
        verdict = evaluate(
            task, plain.replace("    y = helper", "    import helper\n    y = helper"), pool
        )
        assert "ModuleNotFoundError" in verdict.feedback
        assert evaluate(task, BOTH, pool).status == Status.OK


def test_a_run_over_two_files_is_the_same_again(two_files, plain_command, tmp_path):
    small = ("--policy", "mutate", "--set", "search.prompts=2", "--set", "search.rollouts=2")
    found = []
    for name, workers in (("one", 1), ("two", 2)):
        run = tmp_path / name
        plain_command(
            "run", two_files, *small, "--evaluations", 40, "--workers", workers, "--out", run
        )
        with Store(run) as store:
            found.append([(c.source, c.fingerprint, c.fate) for c in store.candidates()])
            assert sum(verdict.status == "ok" for verdict in store.evaluations()) > 10
    assert found[0] == found[1]
    assert "# EVOLVE-FILE helper.py" in plain_command("show", tmp_path / "one").stdout
    (two_files / "helper.py").write_text(HELPER + "\n")
    refused = plain_command("resume", tmp_path / "one", code=2).stderr
    assert "its files are not those with which" in refused


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ('"initial.py"', "files is 'initial.py', a list of one file name or more is needed"),
        ("()", "files is (), a list of one file name or more is needed"),
        ('("initial.py", "initial.py")', "file name 'initial.py' is used twice"),
        ('("initial.py", "../x.py")', "file name '../x.py': letters, digits"),
        ('("initial.py", "json.py")', "file name 'json.py': json cannot name a module"),
        ('("initial.py", "run.py")', "file name 'run.py': run cannot name a module"),
        ('("initial.py", "a-b.py")', "file name 'a-b.py': a-b cannot name a module"),
        ('("initial.py", "fast.c")', "file 'fast.c' is no Python: a command=Command(...)"),
        ('("initial.py", "gone.py")', "gone.py: missing, a task folder needs it"),
    ],
)
def test_unusable_files_are_one_line(two_files, files, says):
    text = (two_files / "task.py").read_text()
    (two_files / "task.py").write_text(text.replace('("initial.py", "helper.py")', files))
    with pytest.raises(TaskError) as caught:
        load_task(two_files)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broken_file_is_named_with_its_line(two_files):
    (two_files / "helper.py").write_text(HELPER.replace("value / 2", "value //"))
    with pytest.raises(TaskError, match=r"toy: helper\.py line 7: invalid syntax"):
        load_task(two_files)
    (two_files / "helper.py").write_text(HELPER.replace("# EVOLVE-BLOCK-END", ""))
    with pytest.raises(TaskError, match=r"toy: helper\.py line 5: EVOLVE-BLOCK-START without"):
        load_task(two_files)
