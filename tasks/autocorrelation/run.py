"""Asks the candidate for one step function."""


def run(program, given):
    """Return the heights of a step function for inequality 1, 2 or 3, one for each equal step."""
    return program.heights(given["inequality"], given["at_most"])
