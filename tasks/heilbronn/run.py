"""Asks the candidate for one set of points."""


def run(program, given):
    """Return (x, y) of ``given["n"]`` points for a shape, "triangle" or "convex"."""
    x, y = program.points(given["n"], given["shape"])
    return x, y
