"""Asks the candidate for one step function."""


def run(program, given):
    """Return ``given["steps"]`` heights between 0 and 1, half of them in sum."""
    return program.heights(given["steps"])
