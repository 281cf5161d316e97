"""HTML in which text cannot become markup.

Only what :func:`element` returns counts as markup; every other string is text that somebody else
may have written, and is cleaned and escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from evolve.program import MAX_SOURCE_BYTES
from evolve.sandbox.text import clean


class Html(str):
    """Text that is markup, made by :func:`element` or known to be harmless."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str) -> Html:
    """Return an element with its children in order.

    Args:
        name: Of the element.
        children: Markup, or text with its line breaks.
        attributes: Names and values; ``class_`` stands for ``class``.
    """
    named = "".join(f' {key.rstrip("_")}="{text(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{named}>{joined(children)}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Return markup and texts one after the other."""
    return Html("".join(part if isinstance(part, Html) else text(part) for part in parts))


def text(value: str) -> Html:
    """Return any text so that it is shown, with everything invisible replaced."""
    return Html(escape(clean(value, MAX_SOURCE_BYTES, keep_lines=True)))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> Html:
    """Return a table; the columns in ``numbers`` are aligned to the right."""

    def row(cells: Sequence[str], kind: str) -> Html:
        return element(
            "tr",
            *(
                element(kind, cell, class_="number") if column in numbers else element(kind, cell)
                for column, cell in enumerate(cells)
            ),
        )

    body = element("tbody", *(row(cells, "td") for cells in rows))
    return element("div", element("table", element("thead", row(head, "th")), body), class_="wide")
