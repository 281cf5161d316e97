"""Asks the candidate for one arrangement of hexagons."""


def run(program, given):
    """Return (x, y, turns, outer): centres and turns of hexagons, and (x, y, turn) around them."""
    return program.pack(given["n"])
