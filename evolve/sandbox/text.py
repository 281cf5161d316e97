"""Hostile text made safe to print.

Covered: terminal escapes, control characters, bidirectional overrides, invisible format characters,
lone surrogates, length. Not covered: HTML, which each page escapes for itself.
"""

from __future__ import annotations

import re
import unicodedata

# CSI, OSC (ended by BEL or ST) and the two-character escapes.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?|\x9b")
#: Control, format (bidi, zero width), surrogate, private use, unassigned.
_UNPRINTABLE = frozenset(["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"])


def clean(text: str, limit: int, *, keep_lines: bool = False) -> str:
    """Return ``text`` without anything that could move a cursor or reorder a line.

    Args:
        text: Any text.
        limit: Longest result, in characters; the middle of longer text is left out.
        keep_lines: Keep line breaks and tabs; otherwise each run of white space is one blank.
    """
    if len(text) > 8 * limit:
        # Cut before the costly part; escapes may still shrink what is kept.
        text = text[: 4 * limit] + " ... " + text[-4 * limit :]
    text = _ESCAPES.sub("", text)
    if keep_lines:
        text = "".join(c if c in "\n\t" or _printable(c) else "?" for c in text)
    else:
        text = "".join(c if _printable(c) else "?" for c in " ".join(text.split()))
    if len(text) > limit:
        head = max(1, limit * 2 // 3)
        text = text[:head] + " ... " + text[-max(1, limit - head - 5) :]
    return text


def _printable(char: str) -> bool:
    return (char.isascii() and " " <= char <= "~") or unicodedata.category(char) not in _UNPRINTABLE
