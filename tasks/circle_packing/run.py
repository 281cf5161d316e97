"""Asks the candidate for one packing; everything else is the judge's business."""


def run(program, given):
    """Return (x, y, radii) of ``given["n"]`` circles, three sequences of that length."""
    x, y, radii = program.pack(given["n"])
    return x, y, radii
