"""Pictures of a run: where its archive stands, how it came there, what its rewards trade off.

And one of several runs: how their groups compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from evolve.compare import Comparison
from evolve.errors import StoreError
from evolve.history import History, read_history
from evolve.plots.archive import animate_archive, draw_archive
from evolve.plots.compare import draw_comparison
from evolve.plots.curves import draw_curves, draw_policy
from evolve.plots.lineage import draw_lineage
from evolve.plots.rewards import draw_rewards
from evolve.plots.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["animate_run", "plot_comparison", "plot_run", "svg_pictures"]

SVG = "http://www.w3.org/2000/svg"

_PICTURES: dict[str, Callable[[History], Figure]] = {
    "archive": draw_archive,
    "curves": draw_curves,
    "policy": draw_policy,
    "rewards": draw_rewards,
    "lineage": draw_lineage,
}


def plot_run(folder: Path, out: Path) -> list[Path]:
    """Draw a run, which may be running, and return the PNG and SVG files made.

    Args:
        folder: The run folder.
        out: Where to; made if need be, and pictures of the same name are replaced.

    Raises:
        StoreError: If the folder holds no run, or the pictures cannot be written.
    """
    history = read_history(folder)
    return _save({name: partial(draw, history) for name, draw in _PICTURES.items()}, out)


def animate_run(folder: Path, out: Path) -> Path:
    """Draw the archive of a run filling and return the GIF made.

    Raises:
        StoreError: If the folder holds no run, or the picture cannot be written.
    """
    history = read_history(folder)
    path = out / "archive.gif"
    try:
        out.mkdir(parents=True, exist_ok=True)
        with styled():
            animate_archive(history, path)
    except OSError as error:
        raise StoreError(f"{out}: cannot be written: {error.strerror}") from None
    return path


def plot_comparison(comparison: Comparison, out: Path) -> list[Path]:
    """Draw how groups of runs compare and return the PNG and SVG files made.

    Raises:
        StoreError: If the pictures cannot be written.
    """
    return _save({"comparison": partial(draw_comparison, comparison)}, out)


def svg_pictures(history: History) -> dict[str, str]:
    """Return the pictures of a run, name -> SVG element to stand in a page of HTML."""
    import matplotlib as mpl

    pictures = {}
    for name, draw in _PICTURES.items():
        # Pictures of one page share its ids, which are hashes of what they stand for.
        with styled(), mpl.rc_context({"svg.hashsalt": f"evolve {name}"}):
            pictures[name] = _svg(draw(history))
    return pictures


def _svg(figure: Figure) -> str:
    file = BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    # Without declarations, comments and metadata, which have no place within HTML.
    root = ElementTree.fromstring(file.getvalue())
    for described in root.findall(f"{{{SVG}}}metadata"):
        root.remove(described)
    root.set("role", "img")
    return ElementTree.tostring(root, encoding="unicode")


def _save(pictures: Mapping[str, Callable[[], Figure]], out: Path) -> list[Path]:
    files = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        with styled():
            for name, draw in pictures.items():
                figure = draw()
                for suffix in ("png", "svg"):
                    path = out / f"{name}.{suffix}"
                    figure.savefig(path)
                    files.append(path)
    except OSError as error:
        raise StoreError(f"{out}: cannot be written: {error.strerror}") from None
    return files
