"""Plain data across the line: what goes in comes out, and hostile bytes build nothing else."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from evolve.sandbox import wire
from evolve.sandbox.text import clean

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**900), 2**900)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(max_size=40)
)
KEYS = st.text(st.characters(exclude_categories=["Cs"])) | st.integers(-(2**60), 2**60)
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=20,
)


@given(DATA)
def test_plain_data_comes_back_as_it_was(value):
    back = wire.decode(wire.encode(value))
    assert back == value
    # 1 == True == 1.0, and -0.0 == 0.0: the types and signs must agree as well.
    assert repr(back) == repr(value)


@given(
    npst.arrays(
        st.sampled_from(["?", "i1", "u2", "<i4", ">i8", "u8", "f2", "<f4", ">f8", "c8", "c16"]),
        npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
        elements={"allow_nan": False, "allow_infinity": False},
    )
)
def test_arrays_keep_shape_kind_and_values(array):
    back = wire.decode(wire.encode([array]))[0]
    assert type(back) is np.ndarray
    assert back.shape == array.shape
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.flags.writeable
    np.testing.assert_array_equal(back, array)


def test_numpy_scalars_become_numbers():
    back = wire.decode(wire.encode([np.float64(0.5), np.int32(3), np.bool_(True), np.str_("a")]))
    assert back == [0.5, 3, True, "a"]
    assert [type(item) for item in back] == [float, int, bool, str]


class Number(float):
    """Equal to everything."""

    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


class Text(str):
    """A subclass of a plain type is not plain."""


class Array(np.ndarray):
    """An array that lies when it is converted."""

    def __array__(self, *args, **kwargs):
        raise AssertionError("must not be asked")


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        -math.inf,
        Number(1.0),
        Text("a"),
        np.zeros(2).view(Array),
        np.array([object()]),
        np.array(["a"]),
        np.array([1.0], dtype=np.longdouble),
        np.datetime64("2020-01-01"),
        {1.5: 0},
        {(1, 2): 0},
        {True: 0},
        {2**61: 0},
        {1, 2},
        2**1001,
        1j,
        object(),
        (x for x in "ab"),
        lambda: 0,
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_refused_where_it_is_made(value):
    for held in (value, [value], {"k": (value,)}):
        with pytest.raises(wire.WireError):
            wire.encode(held)


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_capped_on_both_sides():
    assert wire.decode(wire.encode(nested(wire.MAX_DEPTH))) == nested(wire.MAX_DEPTH)
    with pytest.raises(wire.WireError, match="nested"):
        wire.encode(nested(wire.MAX_DEPTH + 1))
    for depth in (wire.MAX_DEPTH + 1, 500, 100_000):
        with pytest.raises(wire.WireError, match="nested"):
            wire.decode(b"[" * depth + b"]" * depth)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"nothing",
        b"1 2",
        b"NaN",
        b"-Infinity",
        b"[1e999]",
        b'"\xff\xfe"',
        rb'"\ud800"',
        rb'{"d":[["\udc00",1]]}',
        b"9" * 5000,
        b"9" * 400,
        b"{}",
        b'{"t":1}',
        b'{"t":[],"t":[]}',
        b'{"__class__":"os.system"}',
        b'{"d":[["a",1],["a",2]]}',
        b'{"d":[["a"]]}',
        b'{"d":[[[1],1]]}',
        b'{"d":[[null,1]]}',
        b'{"d":[[2305843009213693951,1]]}',
        b'{"b":"*"}',
        b'{"b":1}',
        b'{"a":["O",[1],"AAAAAAAAAAA="]}',
        b'{"a":["|O",[1],"AAAAAAAAAAA="]}',
        b'{"a":["<f8",[2],"AAAAAAAAAAA="]}',
        b'{"a":["<f8",[-1],"AAAAAAAAAAA="]}',
        b'{"a":["<f8",[true],"AAAAAAAAAAA="]}',
        b'{"a":["<f8",[4294967296,4294967296],""]}',
        b'{"a":["<f8",[1],"AAAAAAAA8H8="]}',
        b'{"a":["<f8",[1],"AAAAAAAA+H8="]}',
        b'{"a":["|b1",[1],"Ag=="]}',
        b'{"a":["<f8",[[1]],"AAAAAAAAAAA="]}',
        b'{"a":[["<f8"],[1],"AAAAAAAAAAA="]}',
        b'{"a":["<f8",{"t":[1]},"AAAAAAAAAAA="]}',
    ],
)
def test_hostile_bytes_are_refused(payload):
    with pytest.raises(wire.WireError) as caught:
        wire.decode(payload)
    assert "\n" not in str(caught.value)


@given(
    st.binary(max_size=60)
    | DATA.map(wire.encode).flatmap(
        lambda good: st.tuples(st.integers(0, max(0, len(good) - 1)), st.binary(max_size=2)).map(
            lambda cut: good[: cut[0]] + cut[1] + good[cut[0] + 1 :]
        )
    )
)
def test_damaged_bytes_give_plain_data_or_an_error(payload):
    try:
        value = wire.decode(payload)
    except wire.WireError:
        return
    # Whatever was decoded can be encoded again: it is plain.
    again = wire.decode(wire.encode(value))
    assert json.dumps(repr(again)) == json.dumps(repr(value))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢", "plain é 漢"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("a\nb\tc", "a b c"),
        ("admin\u202enimda", "admin?nimda"),
        ("zero\u200bwidth", "zero?width"),
        ("bell\x07 nul\x00", "bell? nul?"),
        ("\ud800", "?"),
        ("\x9b31mc1", "31mc1"),
    ],
)
def test_text_is_made_safe_to_print(text, shown):
    assert clean(text, 100) == shown


def test_long_text_keeps_both_ends():
    shown = clean("begin" + "x" * 10_000_000 + "end", 100)
    assert len(shown) <= 100
    assert shown.startswith("beginx")
    assert shown.endswith("xend")
    assert clean("one\n\x1b[2Jtwo\r\n", 100, keep_lines=True) == "one\ntwo?\n"
