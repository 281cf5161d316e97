"""Whether a made-up program runs, and whether an edit of it changes what it returns.

Only programs of :mod:`evolve.pocket.blocks` and ``sketches.txt``, and what the scripted mutator
makes of them, are run here, in a process of the corpus builder with a cap on memory and on time.
It is no sandbox: nothing that a model wrote may come here.
"""

from __future__ import annotations

import ast
import json
import os
import resource
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from hashlib import blake2b
from typing import Any

import numpy as np

_SECONDS = 0.25
_MEMORY_BYTES = 3 << 30
_MAX_VALUES = 2000


def limit_this_process() -> None:
    """Cap this process's memory and silence numpy, as every builder process must."""
    # A handler inherited from the builder's parent would end up as an exception in a candidate.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, hard))
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")


def within(cpu_s: int, make: Callable[[], Any]) -> Any:
    """Return what ``make`` returns, as JSON carries it, or None if the kernel had to end it.

    It runs in a child of this process: an alarm cannot end a call into compiled code, and LAPACK
    does not come back from some of the matrices that random programs hand it.

    Args:
        cpu_s: Seconds of CPU after which the kernel ends the child.
        make: What to do; must be safe in a forked process.

    Raises:
        RuntimeError: If ``make`` raises; its traceback is on standard error.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
            with os.fdopen(writer, "w", encoding="utf-8") as stream:
                json.dump(make(), stream)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
            traceback.print_exc()
        finally:
            # Without what the parent would do at its own end.
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as stream:
        text = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code > 0:
        raise RuntimeError("an example of the corpus could not be made, see above")
    return json.loads(text) if code == 0 else None


def inputs_for(source: str, rng: np.random.Generator, count: int = 2) -> list[list[Any]] | None:
    """Return ``count`` sets of arguments for the first function of a program.

    The names of the parameters tell what they take, see ``_MAKERS`` and the first letters in
    :mod:`evolve.pocket.invent`. None if a name tells nothing.
    """
    function = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    required = function.args.args[: len(function.args.args) - len(function.args.defaults)]
    makers = [_maker(arg.arg) for arg in required]
    if any(maker is None for maker in makers):
        return None
    sets = []
    for _ in range(count):
        # One size for all arguments of a call, or arrays would not go together.
        n = int(rng.integers(5, 11))
        sets.append([maker(rng, n) for maker in makers if maker is not None])
    return sets


def outcome(source: str, inputs: Sequence[Sequence[Any]]) -> str | None:
    """Return a digest of what a program returns for the inputs, or None if it does not run.

    Running means: within the time limit, without an exception, and with at most 2,000 numbers, all
    finite.
    """
    digest = blake2b(digest_size=12)
    scope: dict[str, Any] = {"__name__": "candidate"}
    try:
        with _alarm():
            exec(compile(source, "<candidate>", "exec"), scope)
            function = next(
                value
                for value in scope.values()
                if callable(value) and getattr(value, "__module__", "") == "candidate"
            )
            for arguments in inputs:
                values = _numbers(function(*deepcopy(arguments)))
                if values is None:
                    return None
                digest.update(np.round(values, 9).tobytes())
    # A random program raises what it likes; SystemExit and the alarm are no Exceptions.
    except (Exception, SystemExit, _TimeUp):  # noqa: BLE001
        return None
    return digest.hexdigest()


def _numbers(output: Any) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Return everything in a nested output as one array of finite numbers, or None."""
    parts: list[Any] = []
    waiting = [output]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (tuple, list)):
            if len(value) > _MAX_VALUES:
                return None
            waiting.extend(value)
            parts.append(np.array([float(len(value))]))
        else:
            parts.append(np.asarray(value, dtype=float).ravel())
    if not parts or sum(map(len, parts)) > _MAX_VALUES:
        return None
    values = np.concatenate(parts)
    return values if np.isfinite(values).all() else None


class _TimeUp(BaseException):
    pass


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _TimeUp

    old = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


_Maker = Callable[[np.random.Generator, int], Any]


def _vector(rng: np.random.Generator, n: int) -> Any:
    return rng.normal(size=n) * 1.5 + 0.3


def _graph(rng: np.random.Generator, n: int) -> Any:
    upper = np.triu(rng.random((n, n)) < 0.4, 1)
    return (upper | upper.T).astype(float)


_KIND_MAKERS: dict[str, _Maker] = {
    "f": lambda rng, _: float(rng.uniform(0.1, 2.0)),
    "i": lambda _, n: n,
    "a": _vector,
    "l": lambda rng, n: [float(v) for v in _vector(rng, n)],
    "m": lambda rng, n: rng.normal(size=(n, n)),
}
_MAKERS: dict[str, _Maker] = {
    **dict.fromkeys(("a", "b", "t"), _KIND_MAKERS["f"]),
    **dict.fromkeys(("n",), _KIND_MAKERS["i"]),
    **dict.fromkeys(("i", "j", "k"), lambda rng, _: int(rng.integers(1, 4))),
    **dict.fromkeys(("x", "y", "z", "r", "ms", "due", "age", "hits", "size", "counts"), _vector),
    **dict.fromkeys(("xs", "ys", "ws", "vs", "hs"), _KIND_MAKERS["l"]),
    **dict.fromkeys(("ks", "js"), lambda rng, n: [int(v) for v in rng.integers(0, 4, n)]),
    **dict.fromkeys(("p", "v"), lambda rng, n: rng.random((n, 2))),
    "m": _KIND_MAKERS["m"],
    "g": _graph,
}


def _maker(name: str) -> _Maker | None:
    if name[1:].isdigit():
        return _KIND_MAKERS.get(name[0])
    return _MAKERS.get(name)
