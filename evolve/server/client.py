"""Asking a server with patience: time limits, retries with back-off, what ends a run and what not.

One event loop in a thread of its own carries all requests; answers come out of :meth:`Client.next`
in the order in which they arrive, and whoever reads them must not depend on it.

Not covered: streaming. A completion counts once it is whole.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from evolve.config import ServerConfig
from evolve.errors import PolicyError
from evolve.sandbox.text import clean
from evolve.server.wire import BadReplyError, Reply, error_text, read_reply, redact

if TYPE_CHECKING:
    import httpx2

#: Bytes of one answer that are read.
MAX_BYTES = 64 * 2**20

#: Statuses after which the same request may succeed; so may any from 500 on.
PASSING = (408, 409, 425, 429)

Read = TypeVar("Read")


@dataclass(frozen=True)
class Notice:
    """Something to tell a user: the server is away, or back."""

    kind: str
    text: str


@dataclass(frozen=True)
class Arrival:
    """What became of a request: its answer, or why there will be none."""

    tag: tuple[int, int]
    result: Reply | PolicyError


class _FaultError(Exception):
    """An attempt failed; the next may not."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class _RefusedError(Exception):
    """The server understood and said no."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class Client:
    """Requests to one server.

    Attributes:
        config: Address, limits and patience.
        secret: The key, or "".
    """

    config: ServerConfig
    secret: str = field(repr=False)
    _out: queue.SimpleQueue[Notice | Arrival] = field(default_factory=queue.SimpleQueue, init=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _http: httpx2.AsyncClient = field(init=False, repr=False)
    _slots: asyncio.Semaphore = field(init=False)
    _stopped: asyncio.Event = field(init=False)
    #: Whether the server returns ``n`` choices; found out by asking.
    _takes_n: bool = field(default=True, init=False)
    _futures: list[Future[None]] = field(default_factory=list, init=False)
    #: Requests that have used up their retries and wait for the server to come back.
    _waiting: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        import httpx2

        headers = {"Authorization": f"Bearer {self.secret}"} if self.secret else {}
        config = self.config
        self._http = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(config.timeout_s, connect=config.connect_s),
            limits=httpx2.Limits(max_connections=config.concurrency),
        )
        self._slots = asyncio.Semaphore(config.concurrency)
        self._stopped = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        # A daemon: a second Ctrl-C must not wait for a server that does not answer.
        threading.Thread(target=self._loop.run_forever, name="server", daemon=True).start()

    def check(self, model: str) -> None:
        """Find out whether the server answers and knows the model.

        It lists its models; a name that is not listed is tried with a request for one token.

        Raises:
            PolicyError: If it cannot be reached, does not accept the key or lacks the model.
        """
        asyncio.run_coroutine_threadsafe(self._check(model), self._loop).result()

    def submit(
        self, tag: tuple[int, int], body: dict[str, Any], n: int, rng: np.random.Generator
    ) -> None:
        """Ask for ``n`` completions; the outcome arrives under ``tag``.

        Args:
            tag: Whatever tells the answer from others.
            body: The request but for ``n``.
            n: Completions wanted; fewer may come.
            rng: Draws the jitter of the back-off.
        """
        future = asyncio.run_coroutine_threadsafe(self._carry(tag, body, n, rng), self._loop)
        self._futures.append(future)

    def next(self, timeout_s: float) -> Notice | Arrival | None:
        """Return what came next, None if nothing did within ``timeout_s``."""
        try:
            return self._out.get(timeout=timeout_s)
        except queue.Empty:
            return None

    @property
    def takes_n(self) -> bool:
        """Whether one request may ask for several completions, as far as is known."""
        return self._takes_n

    @property
    def busy(self) -> bool:
        """Whether a request is on its way, or an answer is there to be taken."""
        self._futures = [future for future in self._futures if not future.done()]
        return bool(self._futures) or not self._out.empty()

    def drop(self) -> None:
        """Give up whatever is on its way."""
        for future in self._futures:
            future.cancel()
        self._futures.clear()

    def stop(self) -> None:
        """Begin nothing more; what is on its way still arrives."""
        self._loop.call_soon_threadsafe(self._stopped.set)

    async def _check(self, model: str) -> None:
        rng = np.random.default_rng(0)
        try:
            listed = await self._try(lambda: self._once("GET", "models", None, _names), rng, True)
        except _RefusedError as error:
            if error.status in (401, 403):
                raise PolicyError(self._refusal(error, "models")) from None
            listed = []  # it has no such list
        if model in listed:
            return
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "1"}],
            self.config.length_field: 1,
        }
        try:
            await self._try(lambda: self._once("POST", "chat/completions", body, len), rng, True)
        except _RefusedError as error:
            known = f"; it lists {clean(', '.join(listed[:8]), 200)}" if listed else ""
            raise PolicyError(self._refusal(error, "chat/completions") + known) from None

    async def _carry(
        self, tag: tuple[int, int], body: dict[str, Any], n: int, rng: np.random.Generator
    ) -> None:
        async with self._slots:
            if self._stopped.is_set():
                return
            try:
                reply = await self._complete(body, n, rng)
            except PolicyError as error:
                self._out.put(Arrival(tag, error))
            except _RefusedError as error:
                reason = PolicyError(self._refusal(error, "chat/completions"))
                self._out.put(Arrival(tag, reason))
            except asyncio.CancelledError:
                return
            except Exception as error:  # noqa: BLE001 - handed on: nobody looks into this loop
                reason = PolicyError(f"{self.config.base_url}: {self._said(error)}")
                self._out.put(Arrival(tag, reason))
            else:
                self._out.put(Arrival(tag, reply))

    async def _complete(self, body: dict[str, Any], n: int, rng: np.random.Generator) -> Reply:
        def read(content: bytes) -> Reply:
            return read_reply(content, self.secret)

        async def once(number: int) -> Reply:
            asked = body if number == 1 else {**body, "n": number}
            return await self._once("POST", "chat/completions", asked, read)

        number = n if self._takes_n else 1
        try:
            reply: Reply = await self._try(lambda: once(number), rng, False)
        except _RefusedError as error:
            if number == 1 or error.status not in (400, 422):
                raise
            # Some servers refuse n; if it was not that, the refusal comes again.
            reply = await self._try(lambda: once(1), rng, False)
            self._takes_n = False
        if len(reply.choices) < number:
            self._takes_n = False
        return reply

    async def _try(self, once: Callable[[], Any], rng: np.random.Generator, first: bool) -> Any:
        """Repeat an attempt until it succeeds, is refused, or patience ends."""
        config, began, tries, waiting = self.config, self._loop.time(), 0, False
        try:
            while True:
                try:
                    result = await once()
                except _FaultError as fault:
                    reason, asked = str(fault), fault.wait_s
                except ConnectionError as error:
                    reason, asked = str(error), 0.0
                    if first:
                        raise PolicyError(f"{config.base_url}: {reason}") from None
                else:
                    return result
                tries += 1
                spent = self._loop.time() - began
                if first and tries > config.retries:
                    raise PolicyError(f"{config.base_url}: {reason}, {tries} times in a row")
                if spent >= config.patience_s:
                    raise PolicyError(
                        f"{config.base_url}: {reason}; nothing else for {spent:.3g} s, which is "
                        f"all the patience of server.patience_s; evolve resume goes on"
                    )
                if tries > config.retries and not waiting:
                    waiting = True
                    self._pause(reason)
                back_off = min(
                    config.longest_wait_s, config.first_wait_s * 2.0 ** min(tries - 1, 60)
                )
                back_off *= 0.5 + 0.5 * rng.random()
                wait_s = max(back_off, min(asked, config.longest_wait_s))
                if await self._stops_within(wait_s):
                    raise asyncio.CancelledError
        finally:
            if waiting:
                self._waiting -= 1
                if not self._waiting and not self._stopped.is_set():
                    self._out.put(Notice("server", "it answers again, the run goes on"))

    def _pause(self, reason: str) -> None:
        self._waiting += 1
        if self._waiting == 1:
            text = (
                f"{self.config.base_url}: {reason}; the run waits for it, for "
                f"{self.config.patience_s:.4g} s at most"
            )
            self._out.put(Notice("server", text))

    async def _stops_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stopped.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _once(
        self, method: str, path: str, body: dict[str, Any] | None, read: Callable[[bytes], Read]
    ) -> Read:
        """Ask once.

        Raises:
            _FaultError: If it failed in a way that may pass.
            ConnectionError: If the server cannot be reached.
            _RefusedError: If the server says no.
        """
        import httpx2

        limit = self.config.timeout_s
        url = f"{self.config.base_url.rstrip('/')}/{path}"
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if content else {}
        try:
            # Over everything: a server that sends a byte now and then meets every other limit.
            async with (
                asyncio.timeout(limit),
                self._http.stream(method, url, content=content, headers=headers) as response,
            ):
                received = bytearray()
                async for chunk in response.aiter_bytes():
                    received += chunk
                    if len(received) > MAX_BYTES:
                        raise _FaultError(f"an answer of more than {MAX_BYTES} bytes")
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise ConnectionError(f"cannot be reached ({self._said(error)})") from None
        except (TimeoutError, httpx2.TimeoutException):
            raise _FaultError(f"no whole answer within {limit:.4g} s") from None
        except httpx2.HTTPError as error:
            raise _FaultError(f"the answer broke off ({self._said(error)})") from None
        status, whole = response.status_code, bytes(received)
        if status == 200:
            try:
                return read(whole)
            except BadReplyError as error:
                raise _FaultError(str(error)) from None
        told = error_text(whole, self.secret) or "no reason given"
        reason = f"HTTP {status}: {told}"
        if status >= 500 or status in PASSING:
            raise _FaultError(reason, _retry_after(response.headers))
        raise _RefusedError(status, reason)

    def _refusal(self, error: _RefusedError, path: str) -> str:
        hint = {
            401: "; the key is read from OPENAI_API_KEY or the file server.key_file",
            404: "; is the model's name right, and does the address end as it should, in /v1?",
        }.get(error.status, "")
        return f"{self.config.base_url}/{path}: {error}{hint}"

    def _said(self, error: Exception) -> str:
        text = str(error) or type(error).__name__
        return clean(redact(text, self.secret), 200)


def _names(body: bytes) -> list[str]:
    """Return the names of a list of models; [] if it is no list that can be read."""
    try:
        tree = json.loads(body)
        return [str(entry["id"]) for entry in tree["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _retry_after(headers: Any) -> float:
    """Return the seconds that a server asks to be left alone, 0 if it does not."""
    text = headers.get("retry-after", "")
    try:
        return max(0.0, min(float(text), 1e9))
    except ValueError:
        pass
    try:
        # Against the server's own clock: ours may be wrong, and may jump.
        until, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError):
        return 0.0
