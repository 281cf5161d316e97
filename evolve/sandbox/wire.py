"""Plain data as bytes, and frames of bytes: all that crosses the line between judge and candidate.

Covered: the bytes come from hostile code, so decoding builds only None, bool, int, float, str,
bytes, list, tuple, dict and numeric numpy arrays, of bounded depth, with finite numbers and clean
text, and never calls anything that the bytes name. Not covered: what a judge then does with data
of the wrong shape.

Used on both sides; in the sandbox it stands alone, so it imports the standard library only.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import sys
from typing import Any, NoReturn

#: Nesting beyond which data is refused.
MAX_DEPTH = 64
#: Integers stay below the largest float, so that a judge can divide any of them.
MAX_INT_BITS = 1000
#: Integer keys stay below the modulus of Python's integer hash: chosen collisions are no weapon.
_MAX_KEY = 2**61 - 1
_MAX_DIMENSIONS = 16
_DTYPES = frozenset(
    ["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"]
).union(["<c8", "<c16"])
#: Length of the payload and the number that the question asked to be repeated.
HEADER = struct.Struct("<IQ")

_KINDS = "None, bool, int, float, str, bytes, list, tuple, dict, numeric numpy array"


class WireError(ValueError):
    """Data that may not cross; the message is one line that says why."""


def encode(value: Any) -> bytes:
    """Return plain data as bytes.

    numpy scalars become Python numbers. Subclasses of the plain types are refused, not converted.

    Raises:
        WireError: If ``value`` holds anything else, a NaN, an infinity, or is nested too deeply.
    """
    return _ENCODE(_pack(value, 0)).encode()


def decode(payload: bytes) -> Any:
    """Return the plain data in ``payload``, which may be hostile.

    Raises:
        WireError: If it is anything but the encoding of plain data.
    """
    try:
        value = _DECODE(payload.decode())
    except RecursionError:
        raise WireError(f"data is nested deeper than {MAX_DEPTH}") from None
    except WireError:
        raise
    except ValueError as error:
        raise WireError(f"not plain data: {error}") from None
    _check(value, 0)
    return value


def frame(nonce: int, payload: bytes) -> bytes:
    """Return ``payload`` with its header."""
    return HEADER.pack(len(payload), nonce) + payload


def _pack(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind is float:
        if not math.isfinite(value):
            raise WireError(f"{value} is not a finite number")
        return value
    if value is None or kind is str or kind is bool:
        return value
    if kind is int:
        _check_int(value)
        return value
    if depth == MAX_DEPTH:
        raise WireError(f"data is nested deeper than {MAX_DEPTH}")
    if kind is list:
        return [_pack(item, depth + 1) for item in value]
    if kind is tuple:
        return {"t": [_pack(item, depth + 1) for item in value]}
    if kind is dict:
        pairs = [[_checked_key(key), _pack(item, depth + 1)] for key, item in value.items()]
        return {"d": pairs}
    if kind is bytes:
        return {"b": base64.b64encode(value).decode()}
    return _pack_numpy(value, kind, depth)


def _pack_numpy(value: Any, kind: type, depth: int) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        array = numpy.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        if array.dtype.str not in _DTYPES:
            raise WireError(f"a numpy array of dtype {value.dtype} is not plain data")
        data = base64.b64encode(array.tobytes()).decode()
        return {"a": [array.dtype.str, list(value.shape), data]}
    if numpy is not None and isinstance(value, numpy.generic) and kind.__module__ == "numpy":
        plain = value.item()
        if not isinstance(plain, numpy.generic):
            return _pack(plain, depth)
    raise WireError(f"{kind.__name__} is not plain data ({_KINDS})")


def _untag(pairs: list[tuple[str, Any]]) -> Any:
    if len(pairs) != 1:
        raise WireError("not plain data: an object without its tag")
    tag, body = pairs[0]
    if tag == "t" and type(body) is list:
        return tuple(body)
    if tag == "d" and type(body) is list:
        return _untag_dict(body)
    if tag == "b" and type(body) is str:
        return base64.b64decode(body, validate=True)
    if tag == "a" and type(body) is list and len(body) == 3:
        return _untag_array(*body)
    raise WireError("not plain data: an object with an unknown tag")


def _untag_dict(body: list[Any]) -> dict[str | int, Any]:
    result = {}
    for pair in body:
        if type(pair) is not list or len(pair) != 2:
            raise WireError("not plain data: a dict entry that is not a pair")
        result[_checked_key(pair[0])] = pair[1]
    if len(result) != len(body):
        raise WireError("a dict names the same key twice")
    return result


def _untag_array(dtype: Any, shape: Any, data: Any) -> Any:
    try:
        # Imported here: a sandbox whose task does not use numpy never pays for it.
        import numpy as np
    except ImportError:
        raise WireError("an array cannot be read without numpy") from None
    if [type(dtype), type(shape), type(data)] != [str, list, str] or dtype not in _DTYPES:
        raise WireError("not plain data: an array with an unknown dtype or shape")
    if len(shape) > _MAX_DIMENSIONS or not all(type(n) is int and 0 <= n < 2**31 for n in shape):
        raise WireError("not plain data: an array with an impossible shape")
    raw = base64.b64decode(data, validate=True)
    if math.prod(shape) * np.dtype(dtype).itemsize != len(raw):
        raise WireError("not plain data: an array whose shape does not fit its bytes")
    if dtype == "|b1" and raw.strip(b"\x00\x01"):
        raise WireError("not plain data: an array of booleans that are neither 0 nor 1")
    # A copy, since an array over bytes is read-only and judges like to sort in place.
    array = np.frombuffer(raw, dtype=dtype).reshape(shape).copy()
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise WireError("a numpy array holds NaN or infinity")
    return array


def _check(value: Any, depth: int) -> None:
    """Refuse what JSON lets through: overflowing numbers, lone surrogates, deep nesting."""
    kind = type(value)
    if kind is float:
        # 1e999 parses as infinity.
        if not math.isfinite(value):
            raise WireError("a number is not finite")
    elif kind is int:
        _check_int(value)
    elif kind is str:
        _check_text(value)
    elif kind is list or kind is tuple:
        if depth == MAX_DEPTH:
            raise WireError(f"data is nested deeper than {MAX_DEPTH}")
        for item in value:
            _check(item, depth + 1)
    elif kind is dict:
        if depth == MAX_DEPTH:
            raise WireError(f"data is nested deeper than {MAX_DEPTH}")
        for item in value.values():
            _check(item, depth + 1)


def _checked_key(key: Any) -> str | int:
    if type(key) is str:
        _check_text(key)
    elif type(key) is not int or abs(key) >= _MAX_KEY:
        raise WireError("a dict key is neither a str nor an int below 2**61 - 1")
    return key  # type: ignore[no-any-return]


def _check_int(value: int) -> None:
    if value.bit_length() > MAX_INT_BITS:
        raise WireError(f"an integer has more than {MAX_INT_BITS} bits")


def _check_text(value: str) -> None:
    # Text with a lone surrogate cannot be stored or printed.
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise WireError("a text holds a lone surrogate") from None


def _refuse_constant(name: str) -> NoReturn:
    raise WireError(f"{name} is not a finite number")


# Made once, and out of reach of a candidate that patches the module json.
_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_DECODE = json.JSONDecoder(object_pairs_hook=_untag, parse_constant=_refuse_constant).decode
