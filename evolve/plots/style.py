"""How every picture looks: fonts, colours that the colour-blind can tell apart, labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from evolve.sandbox.text import clean
from evolve.task import Descriptor, Objective

#: Okabe and Ito's palette, https://jfly.uni-koeln.de/color/.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Ordered colours for values; perceptually uniform and readable in grey.
MAP = "viridis"
EMPTY = "#EEEEEE"


@contextmanager
def styled() -> Iterator[None]:
    """Draw with these settings, off screen, and leave those of the caller alone."""
    import matplotlib as mpl
    from cycler import cycler

    with mpl.rc_context(
        {
            "figure.dpi": 100,
            "savefig.dpi": 160,
            "savefig.bbox": "tight",
            "font.size": 9,
            "axes.titlesize": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": cycler(color=COLOURS),
            "legend.frameon": False,
            "lines.linewidth": 1.5,
            # Text stays text in SVG: it can be searched and edited.
            "svg.fonttype": "none",
            # The same run gives the same file.
            "svg.hashsalt": "evolve",
        }
    ):
        yield


def plain(text: str, limit: int = 60) -> str:
    """Return any text as it may stand in a picture: one line, no mathematics, nothing hidden."""
    return clean(text, limit).replace("$", r"\$")


def label(axis: Descriptor | Objective) -> str:
    """Return the name of an axis with its unit."""
    return f"{axis.name} ({plain(axis.unit)})" if axis.unit else axis.name
