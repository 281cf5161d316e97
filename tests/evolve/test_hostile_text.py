"""Whatever a program, its errors or output hold: what is shown moves no cursor and runs nothing."""

import ast
import unicodedata
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import nbformat
import pytest
from nbclient import NotebookClient

from evolve import program
from evolve.edits import apply_answer, parse_completion
from evolve.evaluate import evaluate, open_pool
from evolve.policy import ScriptedPolicy
from evolve.records import Candidate, EvaluationRecord
from evolve.sandbox import Status
from evolve.sandbox.text import clean
from evolve.store import Store
from evolve.task import load_task

#: A new title, a cleared screen, colours in two encodings, reordered text, invisible characters,
#: line separators, markup for HTML, for the console and for pictures.
HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\u2066\u200b\ufeff\u2028\x85\x00\x08\r"
    "</text><script>alert(1)</script>&lt;<img src=x onerror=alert(2)>[bold red]x[/] $\\frac{1}{0}$"
)
#: Allowed in text that is shown; everything else of these kinds is not.
PLAIN = "\n"


def assert_plain(text):
    bad = {
        hex(ord(char))
        for char in text
        if char not in PLAIN and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }
    assert not bad


@pytest.fixture
def hostile_task(toy_task):
    """The toy task with hostile text in the program and in the errors that its mutants raise."""
    source = (toy_task / "initial.py").read_text()
    # NUL and carriage returns do not survive a file of Python; the rest does.
    text = HOSTILE.replace("\x00", "").replace("\r", "")
    source = source.replace("import math\n", f"import math\n# {text}\nNAME = {text!r}\n")
    source = source.replace(
        "    return y",
        "    if y > 7.5:\n        raise ValueError(NAME)\n    print(NAME)\n    return y",
    )
    (toy_task / "initial.py").write_text(source, encoding="utf-8")
    judge = (toy_task / "task.py").read_text()
    judge = judge.replace(
        "return {case.name: error}", f"return {{case.name: error, {text!r}: 1.0}}"
    )
    (toy_task / "task.py").write_text(judge, encoding="utf-8")
    return toy_task


def plant_best(folder):
    """Put a program with hostile text everywhere on record, better than all others."""
    with Store(folder, "write") as store, store.transaction():
        parent, new = store.candidate(0), store.last_id("candidates") + 1
        source = f"# {HOSTILE}\n" + (parent.source or "") + f"\nX = '{HOSTILE}'\n"
        best = Candidate(
            new, 0, 0, (0, 0), 0, "evaluate", HOSTILE, None, source, f"f{new}", HOSTILE
        )
        verdict = EvaluationRecord(
            new, "ok", "all", (1.0, 1.0, 1.0), {"square": 0.0}, (3.0, 1.0), "", 0.1, 0.1, 100
        )
        failed = replace(best, id=new + 1, fingerprint=f"f{new + 1}")
        feedback = clean(HOSTILE, 500)
        why = replace(
            verdict, candidate=new + 1, status="exception", rewards=None, feedback=feedback
        )
        store.add_candidates([best, failed])
        store.add_evaluations([verdict, why])
        store.add_event(0, "note", clean(HOSTILE, 500))
    return new


@pytest.mark.slow
def test_what_is_shown_of_a_run_is_plain(hostile_task, command, tmp_path):
    run = tmp_path / "r"
    checked = command("check", hostile_task)
    ran = command(
        "run", hostile_task, "--policy", "mutate", "--set", "search.prompts=6",
        "--set", "search.rollouts=2", "--evaluations", 60, "--out", run,
    )  # fmt: skip
    with Store(run) as store:
        raised = [v for v in store.evaluations() if v.status == "exception"]
        said = {v.feedback for v in raised if "alert(1)" in v.feedback}
    assert said, "no mutant raised the hostile error"
    for text in said:
        assert_plain(text)
    best = plant_best(run)
    shown = [command("show", run), command("show", run, best + 1), command("ls", tmp_path)]
    plotted = command("plot", run)
    for done in (checked, ran, *shown, plotted):
        assert_plain(done.stdout)
        assert_plain(done.stderr)
    # Of a program that failed, what was judged is known and the rest is not zero.
    assert "so far" in shown[1].stdout
    assert shown[1].stdout.count("not judged") == 2
    # The program is still there to be read, markup and all.
    assert "<script>alert(1)</script>" in shown[0].stdout
    pictures = list((run / "plots").glob("*.svg"))
    assert len(pictures) >= 3
    for picture in pictures:
        root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
        tags = {element.tag.rsplit("}")[-1] for element in root.iter()}
        assert not tags & {"script", "img", "foreignObject", "a"}
        for element in root.iter():
            assert not [name for name in element.attrib if name.lower().startswith("on")]
            assert_plain((element.text or "").replace("\t", ""))
    assert any("alert(1)" in picture.read_text(encoding="utf-8") for picture in pictures)
    for picture in (run / "plots").glob("*.png"):
        assert b"alert" not in picture.read_bytes()


@pytest.mark.slow
def test_a_notebook_shows_text_and_no_markup(hostile_task):
    cells = f"""
from evolve.evaluate import evaluate, open_pool
from evolve.task import load_task
task = load_task({str(hostile_task)!r})
with open_pool(task, 1) as pool:
    verdict = evaluate(task, task.initial.replace("y > 7.5", "True"), pool)
verdict
""".strip()
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cells)])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    (shown,) = book.cells[0].outputs
    assert set(shown["data"]) == {"text/plain"}
    assert "alert(1)" in shown["data"]["text/plain"]
    assert_plain(shown["data"]["text/plain"])


def test_what_a_program_prints_and_raises_is_cleaned_at_the_border(hostile_task):
    task = load_task(hostile_task)
    source = task.initial.replace("y > 7.5", "print(NAME) or True")
    with open_pool(task, 1) as pool:
        verdict = evaluate(task, source, pool)
        with pool.session(source) as session:
            session.call({"xs": [1.0]})
            printed = session.close().stderr_tail
    assert verdict.status == Status.EXCEPTION
    assert "<script>alert(1)</script>" in verdict.feedback
    assert_plain(verdict.feedback)
    assert "alert(1)" in printed
    assert_plain(printed)


def never(*_args, **_kwargs):
    raise AssertionError("it was parsed")


LARGE = "x = 1\n" * 12_000


@pytest.mark.parametrize("call", [program.parse_source, program.check, program.fingerprint])
@pytest.mark.parametrize("source", [LARGE, "y = '" + "\u00e9" * 40_000 + "'"])
def test_large_source_is_refused_before_any_parse(monkeypatch, call, source):
    monkeypatch.setattr(ast, "parse", never)
    with pytest.raises(SyntaxError, match="longer than 65536 bytes"):
        call(source)


def test_large_source_reaches_neither_the_parser_nor_a_worker(monkeypatch, toy_task):
    task = load_task(toy_task)
    view = ScriptedPolicy().view(task.initial)
    (answer,) = parse_completion("@1\n1+y = '" + "z" * 70_000 + "'", "line", 1)
    with open_pool(task, 1) as pool:
        monkeypatch.setattr(ast, "parse", never)
        assert apply_answer(view, answer).fault == "too_large"
        verdict = evaluate(task, LARGE, pool)
        assert (verdict.status, verdict.cpu_s) == (Status.SYNTAX_ERROR, 0.0)
        # The sandbox by itself refuses it as well, without forking a process.
        with pool.session(LARGE) as session:
            assert session.call(1).status == Status.SYNTAX_ERROR
            assert session.close().cpu_s == 0.0
