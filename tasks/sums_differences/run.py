"""Asks the candidate for one set of numbers."""


def run(program, given):
    """Return at most ``given["limit"]`` different whole numbers from 0 on, 0 among them."""
    return program.numbers(given["limit"])
