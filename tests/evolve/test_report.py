"""The report of a run: what it says, that it loads nothing, that hostile text does nothing."""

import html
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from evolve.config import load_config
from evolve.history import read_history
from evolve.markup import Html, element, table, text
from evolve.report import report_page
from evolve.sandbox.text import clean
from evolve.store import Store
from tests.evolve.conftest import Command, write_toy_task
from tests.evolve.test_hostile_text import HOSTILE, assert_plain, plant_best

SMALL = ("--set", "search.prompts=4", "--set", "search.rollouts=2", "--policy", "mutate")
HTML_TAGS = set(
    re.findall(
        r"\w+",
        "html head meta title style body section h1 h2 h3 p ul li div table thead tbody tr th td "
        "pre code span figure figcaption",
    )
)
SVG_TAGS = set(re.findall(r"\w+", "svg g path defs style use text tspan clippath rect image"))


class Page(HTMLParser):
    """What a page is made of, as a browser would read it."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.open = set(), [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    @property
    def text(self):
        return "".join(self.texts)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    folder = place / "run"
    Command()("run", write_toy_task(place), *SMALL, "--evaluations", 90, "--out", folder)
    return folder


@pytest.fixture(scope="module")
def page(run):
    return report_page(run)


def test_it_says_which_program_is_best_and_why(run, page):
    shown = Page(page).text
    with Store(run) as store:
        verdicts = [v for v in store.evaluations() if v.rewards is not None]
        best = max(verdicts, key=lambda v: (sum(v.rewards), -v.candidate))
        source = store.candidate(best.candidate).source
        parent = store.candidate(best.candidate).parent
        start = verdicts[0]
        last = store.rounds()[-1]
    assert f"Program {best.candidate} is best: mean reward {np.mean(best.rewards):.4f}" in shown
    assert source in shown
    assert f"difference to the parent, program {parent}" in shown
    for name, now, before in zip(
        ("square", "line", "flat"), best.rewards, start.rewards, strict=True
    ):
        top = max(verdicts, key=lambda v: v.rewards[("square", "line", "flat").index(name)])
        row = re.search(rf"<tr><td>{name}</td>.*?</tr>", page)[0]
        cells = re.findall(r">([^<]*)</td>", row)
        assert (cells[2], cells[4]) == (f"{before:.4f}", f"{now:.4f}")
        assert float(cells[1]) == pytest.approx(start.raw[name], rel=1e-5)
        assert cells[5] == f"{max(top.rewards[('square', 'line', 'flat').index(name)], 0):.4f}"
    cells = last["coverage"] * 40
    assert f"{cells:.0f} of 40 cells are occupied ({last['coverage']:.1%})" in shown
    assert f"QD-score {last['qd_score']:.3f}" in shown


def test_it_says_which_edit_brought_most(run, page):
    lineage = read_history(run).lineage
    gains = [after.mean - before.mean for before, after in pairwise(lineage)]
    assert gains
    place = int(np.argmax(gains))
    shown = Page(page).text
    step = lineage[place + 1].candidate
    said = f"of {len(gains)}, made program {step.id}: {gains[place]:+.4f} ({step.operator}"
    assert said in shown
    for member in lineage:
        assert f'<td class="number">{member.candidate.id}</td>' in page


def test_the_diff_turns_the_parent_into_the_best(run, page):
    lineage = read_history(run).lineage
    marked = re.findall(r'<span class="(added|removed)">(.*?)</span>', page)
    before, after = (step.candidate.source.splitlines() for step in lineage[-2:])
    for kind, line in marked:
        assert html.unescape(line)[1:] in (after if kind == "added" else before)
    assert any(html.unescape(line)[1:] not in before for kind, line in marked if kind == "added")


def test_the_run_can_be_made_again_from_it(run, page, command, tmp_path):
    shown = Page(page)
    configuration = html.unescape(re.search(r'<pre id="configuration">(.*?)</pre>', page, re.S)[1])
    (tmp_path / "config.toml").write_text(configuration)
    assert load_config(tmp_path / "config.toml") == load_config(run / "config.toml")
    task = load_config(run / "config.toml").task
    assert f"evolve run {task} --config config.toml" in shown.text
    command("run", task, "--config", tmp_path / "config.toml", "--out", tmp_path / "again")
    first, again = read_history(run), read_history(tmp_path / "again")
    assert [a.digest() for a in first.state.islands] == [a.digest() for a in again.state.islands]


def test_it_stands_alone_and_the_same_run_gives_the_same_file(run, page, command, tmp_path):
    parsed = Page(page)
    assert not parsed.open
    assert parsed.tags <= HTML_TAGS | SVG_TAGS
    for name, value in parsed.attributes:
        if name in ("href", "xlink:href", "src"):
            assert value.startswith(("#", "data:image/png;base64,")), value
        assert "url(" not in (value or "") or "url(#" in value
    assert "@import" not in page
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\';' in page
    assert parsed.tags >= {"svg", "path"}
    # Ids of one picture are not those of another.
    ids = [set(re.findall(r'id="([pm][0-9a-f]{10})"', one)) for one in page.split("<svg")[1:]]
    assert len(ids) == 5
    assert sum(map(len, ids)) == len(set.union(*ids)) > 0
    out = tmp_path / "deep" / "page.html"
    assert command("report", run, "--out", out).stdout.strip() == str(out)
    assert out.read_text(encoding="utf-8") == page
    command("report", run)
    assert (run / "report.html").is_file()


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    """A report in which the task, the best program and the events are hostile."""
    place = tmp_path_factory.mktemp("hostile")
    task = write_toy_task(place)
    judge = task / "task.py"
    shown = "</td><script>document.title='owned'</script>"
    changed = judge.read_text().replace(
        'Objective(name, 0.0, 10.0, "min")', f'Objective(name, 0.0, 10.0, "min", unit="{shown}")'
    )
    judge.write_text(changed.replace("Write solve(x)", f"{shown} Write solve(x)"))
    folder = place / "run"
    Command()("run", task, *SMALL, "--evaluations", 30, "--out", folder)
    best = plant_best(folder)
    evil = f"# {HOSTILE}\n'''</code></pre>{shown}<img src=x onerror=\"document.title='owned'\">'''"
    with Store(folder) as store:
        source = evil + (store.candidate(best).source or "")
    with closing(sqlite3.connect(folder / "run.db")) as db, db:
        values = (source, f"{shown}{HOSTILE}", best)
        db.execute("UPDATE candidates SET source = ?, operator = ? WHERE id = ?", values)
        db.execute("INSERT INTO events (round, kind, text) VALUES (0, ?, ?)", (shown, shown))
    return report_page(folder), source


def test_hostile_text_is_only_text(hostile_page):
    page, source = hostile_page
    parsed = Page(page)
    assert not parsed.open
    assert parsed.tags <= HTML_TAGS | SVG_TAGS
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert_plain(parsed.text.replace("\t", ""))
    # It is all there to be read.
    assert clean(source, 2**16, keep_lines=True) in parsed.text
    assert parsed.text.count("document.title='owned'") >= 8


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize("guarded", [True, False])
def test_hostile_text_does_nothing_in_a_browser(hostile_page, tmp_path, guarded):
    page, _ = hostile_page
    title = re.search(r"<title>(.*?)</title>", page)[1]
    if not guarded:
        # Escaping alone has to hold, without the policy that forbids scripts.
        page, count = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
        assert count == 1
    assert title_in_browser(page, tmp_path) == title
    # The same text as markup: what the test would see if something slipped through.
    open_ = page.replace("</body>", "<script>document.title='owned'</script></body>")
    assert title_in_browser(open_, tmp_path) == (title if guarded else "owned")


def title_in_browser(page, folder):
    """The title of a page after headless Chromium has run whatever it runs."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={folder}/profile", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return re.search(r"<title>(.*?)</title>", done.stdout)[1]


def test_only_elements_are_markup():
    assert text("<b>\u202e") == "&lt;b&gt;?"
    assert element("p", "<i>", element("b", "x"), class_='"') == (
        '<p class="&quot;">&lt;i&gt;<b>x</b></p>'
    )
    assert "<td>&lt;</td>" in table(("a",), [("<",)])
    assert not isinstance(Html("a") + "<", Html)


def test_a_report_that_cannot_be_written_is_one_line(run, command, tmp_path):
    (tmp_path / "file").write_text("")
    for folder, out in ((run, tmp_path / "file" / "x.html"), (tmp_path, tmp_path / "x.html")):
        error = command("report", folder, "--out", out, code=2).stderr
        assert error.startswith("error: ")
        assert error.count("\n") == 1
