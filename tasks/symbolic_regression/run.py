"""Fits the candidate's terms to the training points and predicts the held-out ones."""

import numpy as np

MAX_TERMS = 6


def run(program, given):
    """Return one prediction for each held-out point.

    The law is ``y = c0 + c1 * term1 + ...`` with coefficients by least squares.
    """
    train = matrix(program, given["train"])
    held_out = matrix(program, given["held_out"])
    if train.shape[1] != held_out.shape[1]:
        raise ValueError("terms returned a different number of terms for other points")
    # Columns of one size: the pseudo-inverse cuts off by size, and 1e9 * a is as good a term as a.
    size = np.maximum(np.max(np.abs(train), axis=0), 1e-300)
    weights = np.linalg.lstsq(train / size, given["y"], rcond=1e-10)[0]
    return held_out / size @ weights


def matrix(program, points):
    """Return the terms at ``points`` (n, 2) as columns (n, 1 + terms), a column of ones first."""
    a, b = np.array(points[:, 0]), np.array(points[:, 1])
    columns = [np.ones(len(points))]
    for term in program.terms(a, b):
        columns.append(np.broadcast_to(np.asarray(term, dtype=float), (len(points),)))
    if len(columns) > 1 + MAX_TERMS:
        raise ValueError(f"terms returned {len(columns) - 1} terms, at most {MAX_TERMS} are fitted")
    result = np.stack(columns, axis=1)
    if not np.isfinite(result).all():
        raise ValueError("a term is not finite at some point")
    return result
