"""Templates of expressions that :mod:`evolve.pocket.invent` fills with other expressions."""

from __future__ import annotations


def _forms(text: str) -> tuple[str, ...]:
    """Return the lines of a text: templates whose fields are filled with other expressions."""
    return tuple(line.strip() for line in text.strip().splitlines())


GUARDED = _forms("""
    np.sqrt(np.abs({0}))
    np.log1p(np.abs({0}))
    np.exp(-np.abs({0}))
    np.exp(-{0} ** 2)
    1 / (1 + np.abs({0}))
    1 / (1 + np.exp(-{0}))
    np.sqrt({0} ** 2 + 1)
    np.sign({0})
    np.floor({0})
    np.maximum({0}, 0)
    np.minimum({0}, 1)
    np.sqrt(np.maximum({0}, 0))
    np.log(np.maximum({0}, 1e-09))
    np.arctan({0})
    np.cbrt({0})
""")
SCALAR = _forms("""
    abs({0})
    max({0}, {1})
    min({0}, {1})
    ({0} if {2} else {1})
    {0} ** 2
    np.sqrt(abs({0}))
    np.exp(-abs({0}))
    np.log1p(abs({0}))
    np.tanh({0})
    -{0}
    float({0})
    math.sqrt(abs({0}))
    np.hypot({0}, {1})
    math.sin({0})
    np.cos({0})
    math.exp(-abs({0}))
    math.hypot({0}, {1})
    math.pi * {0}
    2 * np.pi * {0}
""")
DOTS = _forms("""
    np.dot({0}, {1})
    np.sum({0} * {1})
    np.linalg.norm({0})
    {0} @ {1}
""")
OF_LISTS = _forms("""
    sum({0})
    max({0})
    min({0})
    {0}[0]
    sum({0}) / len({0})
    {0}[-1]
""")
NEW_ARRAYS = _forms("""
    np.arange({0})
    np.linspace(0, 1, {0})
    np.zeros({0})
    np.full({0}, {1})
    np.ones({0})
    (np.arange({0}) + 0.5) / {0}
    np.linspace({1}, 1, {0})
    np.arange({0}) % 4
    np.arange({0}) // 3
    np.cos(2 * np.pi * np.arange({0}) / {0})
""")
ORDERS = _forms("""
    np.sort({0})
    np.argsort({0})
    np.cumsum({0})
    {1}[::-1]
    np.sort({0})[::-1]
""")
LIKE = _forms("""
    np.arange(len({0}))
    np.zeros(len({0}))
    np.ones_like({0})
    np.zeros_like({0})
    np.full(len({0}), {1})
    np.linspace(0, 1, len({0}))
    np.arange({0}.size)
    np.full_like({0}, {1})
    np.arange(len({0})) / len({0})
    {0}.copy()
""")
SCALES = _forms("""
    ({0} - np.mean({0})) / (np.std({0}) + 1e-09)
    {0} / np.max({0})
    {0} / {0}.sum()
    ({0} - np.min({0})) / (np.ptp({0}) + 1e-09)
    {0} - np.mean({0})
    {0} - {0}.min()
    {0} / (np.sum(np.abs({0})) + 1e-09)
    {0} / (np.linalg.norm({0}) + 1e-09)
""")
REDUCED = _forms("""
    np.{1}({0}, axis=1)
    np.{1}({0}, axis=0)
    {0} @ {2}
    np.diag({0})
""")
SHIFTS = _forms("""
    np.roll({0}, 1)
    np.roll({0}, -1)
    np.diff({0}, prepend=0)
    np.gradient({0})
""")
MATRICES = _forms("""
    np.abs({0})
    {0} * {0}
    np.sqrt({0} * {0} + {1} * {1})
    np.hypot({0}, {1})
    np.exp(-{0} ** 2)
    np.maximum({0}, 0)
    {0} + np.eye(len({0}))
    {0} - {1}
    np.where({0} > {2}, {0}, {1})
    {0} / (1 + np.abs({1}))
    {0}.T
    {0} * {2}
    np.minimum({0}, {1})
    np.clip({0}, 0, {2})
    {0} + {1}
    1 / (np.abs({0}) + {3})
""")
NEW_MATRICES = _forms("""
    {0}[:, None] - {0}
    {0}[:, None] + {1}
    np.outer({0}, {1})
    {0}[:, None] - {1}
    np.abs({0}[:, None] - {0}[None, :])
    np.subtract.outer({0}, {0})
    np.diag({0})
    np.maximum({0}[:, None], {1})
    {0}[:, None] * {1}[None, :]
    np.eye(len({0}))
""")
