"""Asks the candidate for one packing; everything else is the judge's business."""


def run(program, given):
    """Return (width, x, y, radii): circles in a rectangle of that width and half perimeter 2."""
    return program.pack(given["n"], given["shape"])
