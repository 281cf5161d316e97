"""Asks the candidate for the products of a bilinear algorithm, and puts its pieces in place."""

import numpy as np


def run(program, given):
    """Return (left, right, out), three arrays with a row for each product.

    A row of ``left`` is a linear form of the entries of A (row by row), one of ``right`` of those
    of B; their product is added to the entries of C = A B as a row of ``out`` says. The candidate
    returns pieces (left, right, out, corner). A part of a piece has a column for each entry of the
    matrix, or four columns for those of a 2 x 2 block; corner = (i, j, k) says where it lies: at
    row i and column j of A, row j and column k of B, row i and column k of C, around the edges if
    need be. Coefficients are rounded to multiples of 1/8.
    """
    n, m, p = given["shape"]
    parts = [np.zeros((0, n * m)), np.zeros((0, m * p)), np.zeros((0, n * p))]
    for left, right, out, corner in program.products(n, m, p):
        i, j, k = (int(place) for place in corner)
        placed = (whole(left, n, m, i, j), whole(right, m, p, j, k), whole(out, n, p, i, k))
        parts = [np.concatenate(both) for both in zip(parts, placed, strict=True)]
    return tuple(np.rint(8 * part) / 8 for part in parts)


def whole(rows, height, width, i, j):
    """Return forms of a 2 x 2 block as forms of the matrix; those of the matrix as they are."""
    rows = np.asarray(rows, dtype=float)
    if rows.shape[1:] == (height * width,):
        return rows
    entries = [
        (i + down) % height * width + (j + along) % width for down in (0, 1) for along in (0, 1)
    ]
    forms = np.zeros((len(rows), height * width))
    for column, entry in enumerate(entries):
        forms[:, entry] += rows[:, column]
    return forms
