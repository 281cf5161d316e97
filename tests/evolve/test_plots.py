"""Pictures of a finished run, and the figures behind them."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from evolve.history import answer_shares, read_history
from evolve.plots import plot_run
from evolve.store import Store

SMALL = ("--set", "search.prompts=4", "--set", "search.rollouts=2", "--policy", "mutate")
#: A name of an objective that would be a formula in matplotlib, a tag in SVG, a bell on a terminal.
HOSTILE = r"$\\alpha$ <script>alert(1)</script> \x07\u202e"


@pytest.fixture
def run_folder(toy_task, command, tmp_path):
    task = toy_task / "task.py"
    unit = 'Objective(name, 0.0, 10.0, "min", unit="' + HOSTILE + '")'
    text = task.read_text().replace('Objective(name, 0.0, 10.0, "min")', unit)
    descriptor = 'Descriptor("cyclomatic", 1.0, 6.0, 5'
    text = text.replace(descriptor, descriptor + ', unit="' + HOSTILE + '"')
    task.write_text(text)
    folder = tmp_path / "run"
    command("run", toy_task, *SMALL, "--evaluations", 90, "--out", folder)
    return folder


def test_a_run_leaves_pictures_that_open_and_the_same_ones_again(run_folder, command, tmp_path):
    from matplotlib.image import imread

    names = {path.name for path in (run_folder / "plots").iterdir()}
    stems = ("archive", "curves", "policy", "rewards", "lineage")
    assert names == {f"{stem}.{suffix}" for stem in stems for suffix in ("png", "svg")}
    for stem in stems:
        pixels = imread(run_folder / "plots" / f"{stem}.png")[:, :, :3]
        assert pixels.std() > 0.02, f"{stem}.png is blank"
        ElementTree.parse(run_folder / "plots" / f"{stem}.svg")
    command("plot", run_folder, "--out", tmp_path / "again")
    for name in names - {"policy.svg"}:
        first, again = run_folder / "plots" / name, tmp_path / "again" / name
        dated = rb"<dc:date>.*?</dc:date>"
        assert re.sub(dated, b"", first.read_bytes()) == re.sub(dated, b"", again.read_bytes())


def test_hostile_text_is_only_text_in_a_picture(run_folder):
    svg = (run_folder / "plots" / "archive.svg").read_text()
    assert "<script" not in svg
    assert "&lt;script" in svg
    assert "\x07" not in svg
    assert "\u202e" not in svg


def test_the_history_agrees_with_the_store(run_folder):
    history = read_history(run_folder)
    with Store(run_folder) as store:
        verdicts = {v.candidate: v for v in store.evaluations()}
    evaluations, best = history.curve("best_mean")
    assert evaluations[0] == 0
    assert evaluations[-1] == 90
    assert (np.diff(best) >= 0).all()
    means = {i: np.mean(v.rewards) for i, v in verdicts.items() if v.rewards is not None}
    assert best[-1] == pytest.approx(max(means.values()))
    assert best[0] == pytest.approx(means[0])
    assert next(step.candidate.id for step in history.lineage) == 0
    for child, parent in zip(history.lineage[1:], history.lineage, strict=False):
        assert child.candidate.parent == parent.candidate.id
    (shares,) = answer_shares(history.rounds).values()
    assert sum(v for name, v in shares.items() if name != "answers") == pytest.approx(1.0)
    valid = (len(means) - 1) / shares["answers"]
    assert shares["taken"] + shares["valid"] == pytest.approx(valid)


def test_the_colour_scale_and_the_ring_follow_the_best_cell(run_folder):
    from matplotlib.collections import PolyCollection

    from evolve.plots.archive import draw_archive

    history = read_history(run_folder)
    figure = draw_archive(history)
    shapes, ring = (c for c in figure.axes[0].collections if isinstance(c, PolyCollection))
    (archive,) = history.state.islands
    shown = {
        int(index): value
        for index, value in enumerate(shapes.get_array())
        if value is not np.ma.masked
    }
    assert len(shown) == len(archive.occupied())
    best = history.state.best()
    assert max(shown.values()) == pytest.approx(np.mean(best.rewards))
    corner = ring.get_paths()[0].vertices.mean(axis=0)
    assert max(shown, key=shown.get) == next(
        i for i, p in enumerate(shapes.get_paths()) if np.allclose(p.vertices.mean(axis=0), corner)
    )


def test_the_animation_fills_the_archive_of_the_map(run_folder, command, tmp_path):
    from PIL import Image

    listed = command("plot", run_folder, "--gif", "--out", tmp_path).stdout.split()
    assert listed[-1] == str(tmp_path / "archive.gif")
    with Image.open(tmp_path / "archive.gif") as film:
        assert film.n_frames > 20
        coloured = []
        for number in range(film.n_frames):
            film.seek(number)
            pixels = np.asarray(film.convert("RGB"), dtype=int)
            # The map alone, without the colour bar beside it; greys are neither cell nor ring.
            pixels = pixels[40:-45, : int(0.72 * pixels.shape[1])]
            coloured.append((np.ptp(pixels, axis=2) > 40).sum())
        assert film.info["duration"] > 0
    assert coloured[-1] > 3 * coloured[0] > 0
    # A frame that shows more cells than the one before never shows fewer later, rings aside.
    assert (np.diff(coloured) > -0.1 * coloured[-1]).all()


def test_a_folder_without_a_run_is_one_line(command, tmp_path):
    result = command("plot", tmp_path, code=2)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_pictures_that_cannot_be_written_are_one_line(run_folder, tmp_path):
    from evolve.errors import StoreError

    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        plot_run(run_folder, tmp_path / "file")
