"""Asks the candidate for the places of double roots."""


def run(program, given):
    """Return ``given["n"]`` different positive numbers."""
    return program.places(given["n"])
