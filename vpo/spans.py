"""From characters of a decoded completion to its tokens: which tokens wrote which answer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence


def token_ends(ids: Sequence[int], text: str, decode: Callable[[list[int]], str]) -> list[int]:
    """Return the character at which each token ends in ``text``; the list does not decrease.

    Args:
        ids: Token ids of a completion.
        text: ``decode(ids)``, perhaps without a tail (an end token, stripped white space).
        decode: The tokenizer's inverse, for any part of ``ids``.

    A token that ends inside a character (byte-level vocabularies) ends where the last whole
    character does; so the token that completes a character owns it.
    """
    pieces = [decode([token]) for token in ids]
    if "".join(pieces).startswith(text) and "\ufffd" not in text:
        ends, at = [], 0
        for piece in pieces:
            at += len(piece)
            ends.append(min(at, len(text)))
        return ends
    # Pieces do not add up: cut characters, or a tokenizer that treats the first token its own way.
    ends, at = [], 0
    for count in range(1, len(ids) + 1):
        at = max(at, _common(decode(list(ids[:count])), text))
        ends.append(at)
    return ends


def token_span(ends: Sequence[int], start: int, stop: int) -> tuple[int, int]:
    """Return the half-open token span that covers the characters [start, stop).

    Args:
        ends: What :func:`token_ends` returned.
        start: First character.
        stop: Character after the last; an empty span of characters gives an empty span of tokens.
    """
    first = bisect_right(ends, start)
    return (first, first) if stop <= start else (first, min(len(ends), bisect_left(ends, stop) + 1))


def _common(a: str, b: str) -> int:
    for at, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return at
    return min(len(a), len(b))
