"""Asks the candidate for one set of points."""


def run(program, given):
    """Return ``given["n"]`` points in ``given["d"]`` dimensions, an array (n, d)."""
    return program.points(given["n"], given["d"])
