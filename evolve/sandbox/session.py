"""The conversation with one candidate's process.

The child computes, the parent scores: inputs go over one at a time, the next only after the
previous answer, and each answer must repeat a random number that came with its input. The clock
that counts is on this side.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any

from evolve.errors import TaskError
from evolve.files import files_of
from evolve.sandbox import child, wire
from evolve.sandbox.outcome import Reply, Status, Usage
from evolve.sandbox.text import clean
from evolve.sandbox.worker import REPORT_S, Report, Worker, WorkerLost
from evolve.task import Limits

#: Larger sources are refused before anything parses them.
MAX_SOURCE_BYTES = 65536
#: Printed text beyond ``output_kb`` is dropped; this many times that ends the candidate.
FLOOD = 16
#: Seconds, on top of one case's, for forking a process and executing the module.
LOAD_S = 2.0

_DETAIL = 500
_TAIL = 4096
_FAILURES = {
    child.INVALID: Status.INVALID_OUTPUT,
    child.EXCEPTION: Status.EXCEPTION,
    child.SYNTAX: Status.SYNTAX_ERROR,
    child.MEMORY: Status.MEMORY,
    child.EXITED: Status.EXITED_EARLY,
    child.TOO_LARGE: Status.OUTPUT_LIMIT,
    child.CPU: Status.TIMEOUT_CPU,
    child.CRASHED: Status.CRASHED,
}


class Session:
    """A conversation with one candidate's process. Close it to free the worker."""

    def __init__(
        self,
        worker: Worker,
        source: str,
        limits: Limits,
        encode: Callable[[Any], bytes],
        release: Callable[[Worker, bool], None],
    ) -> None:
        """Fork the process; called by :meth:`evolve.sandbox.Pool.session`."""
        self._worker = worker
        self._limits = limits
        self._encode = encode
        self._release = release
        self._report: Report | None = None
        self._fault: Reply | None = None
        self._lost = self._loaded = self._closed = self._forked = False
        self._printed, self._tail = 0, b""
        text = source.encode("utf-8", "surrogatepass")
        self._started = time.monotonic()
        if len(text) > MAX_SOURCE_BYTES:
            size = f"the source takes {len(text)} bytes, at most {MAX_SOURCE_BYTES}"
            self._fail(Status.SYNTAX_ERROR, size)
            return
        self._program = bytes([child.TEXT]) + text
        if files := files_of(source):
            try:
                by_name = wire.encode({file.name: file.text for file in files})
            except wire.WireError as error:
                self._fail(Status.SYNTAX_ERROR, clean(str(error), _DETAIL))
                return
            self._program = bytes([child.FILES]) + by_name
        self._fork()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def load(self) -> Reply | None:
        """Return what is wrong with the program as such, None once it has been executed.

        Raises:
            TaskError: If the task's runner is broken.
        """
        if self._fault is None and not self._loaded:
            answer = self._exchange(self._program, self._started + self._limits.wall_s + LOAD_S)
            if answer is not None:
                code, body = answer
                if code == child.BROKEN_RUNNER:
                    raise TaskError(f"run.py fails in the sandbox: {_line(body)}")
                if code in _FAILURES:
                    self._fail(_FAILURES[code], _line(body))
                elif code != child.LOADED or body:
                    self._fail(Status.PROTOCOL_ERROR, "it answered before it was asked")
                else:
                    self._loaded = True
        return self._fault

    def call(self, given: Any) -> Reply:
        """Return the program's answer to one input.

        After an exception or an invalid answer the program may be asked again; after any other
        failure its process is gone and each further call returns that failure.

        Raises:
            TaskError: If ``given`` is not plain data, or the task's runner is broken.
        """
        payload = self._encode(given)
        if (fault := self.load()) is not None:
            return fault
        started = time.monotonic()
        answer = self._exchange(payload, started + self._limits.wall_s)
        wall_s = time.monotonic() - started
        if answer is None:
            assert self._fault is not None
            self._fault = replace(self._fault, wall_s=wall_s)
            return self._fault
        code, body = answer
        if code == child.OK:
            try:
                output = wire.decode(body)
            except wire.WireError as error:
                return Reply(Status.INVALID_OUTPUT, None, clean(str(error), _DETAIL), wall_s)
            digest = hashlib.blake2b(body, digest_size=16).hexdigest()
            return Reply(Status.OK, output, "", wall_s, digest)
        status = _FAILURES.get(code, Status.PROTOCOL_ERROR)
        reply = Reply(status, None, _line(body), wall_s)
        if status not in (Status.INVALID_OUTPUT, Status.EXCEPTION):
            self._fail(status, reply.detail)
        return reply

    def close(self) -> Usage:
        """Kill the process, free the worker and return what the candidate used."""
        if not self._closed:
            self._closed = True
            if self._forked:
                self._end()
                self._drain()
                self._channel.close()
                os.close(self._print_fd)
            self._release(self._worker, not self._lost)
        report = self._report or Report("", 0, 0, 0.0, 0, 0)
        tail = clean(self._tail.decode("utf-8", "replace"), _TAIL, keep_lines=True)
        return Usage(report.cpu_s, report.max_rss_kb, tail, self._worker.index)

    def _fork(self) -> None:
        self._channel, theirs = socket.socketpair()
        self._print_fd, printed = os.pipe()
        self._forked = True
        self._channel.setblocking(False)
        os.set_blocking(self._print_fd, False)
        self._poll = select.poll()
        for fd in (self._channel.fileno(), self._print_fd, self._worker.control.fileno()):
            self._poll.register(fd, select.POLLIN)
        try:
            self._worker.start(theirs.fileno(), printed)
        except WorkerLost as lost:
            self._lose(lost)
        finally:
            theirs.close()
            os.close(printed)

    def _exchange(self, payload: bytes, deadline: float) -> tuple[int, bytes] | None:
        """Send a frame; return code and body of the reply, or None with the fault recorded."""
        nonce = secrets.randbits(64)
        out = memoryview(wire.frame(nonce, payload))
        got = bytearray()
        if self._receive(got) and got:
            self._fail(Status.PROTOCOL_ERROR, "it answered before it was asked")
        while self._fault is None:
            out = self._send(out)
            answer = self._parse(got, nonce)
            if answer is not None or self._fault is not None:
                return answer
            left = deadline - time.monotonic()
            if left <= 0:
                self._fail(Status.TIMEOUT_WALL, f"no answer within {self._limits.wall_s:g} s")
                break
            # While an input does not fit into the socket, look again soon.
            for fd, _ in self._poll.poll(1000 * (min(left, 0.01) if out else left)):
                if fd == self._print_fd:
                    self._drain()
                elif fd == self._worker.control.fileno():
                    self._collect()
                elif not self._receive(got) and self._parse(got, nonce) is None:
                    self._conclude()
        return None

    def _send(self, out: memoryview) -> memoryview:
        while out:
            try:
                out = out[self._channel.send(out) :]
            except BlockingIOError:
                break
            except OSError:
                # It has hung up; reading will say so too.
                return out[:0]
        return out

    def _receive(self, got: bytearray) -> bool:
        """Append what has arrived; return False once the other end is closed."""
        try:
            part = self._channel.recv(1 << 18)
        except BlockingIOError:
            return True
        except OSError:
            return False
        got += part
        return bool(part)

    def _parse(self, got: bytearray, nonce: int) -> tuple[int, bytes] | None:
        head = wire.HEADER.size
        if len(got) < head:
            return None
        size, echoed = wire.HEADER.unpack_from(got)
        # What says why there is no answer is a line of text, however small answers may be.
        if size > self._limits.output_kb * 1024 + _TAIL:
            self._fail(Status.OUTPUT_LIMIT, f"the answer takes {size} bytes")
        elif echoed != nonce or size == 0 or len(got) > head + size:
            self._fail(Status.PROTOCOL_ERROR, "what it sent is not one answer to this input")
        elif len(got) == head + size:
            return got[head], bytes(got[head + 1 :])
        return None

    def _drain(self) -> None:
        """Read what the candidate printed; keep the end of it."""
        while True:
            try:
                part = os.read(self._print_fd, 1 << 16)
            except BlockingIOError:
                return
            if not part:
                if not self._closed:
                    self._poll.unregister(self._print_fd)
                return
            self._printed += len(part)
            self._tail = (self._tail + part)[-_TAIL:]
            if self._printed > self._limits.output_kb * 1024 * FLOOD:
                if self._fault is None:
                    self._fail(Status.OUTPUT_LIMIT, f"it printed {self._printed} bytes")
                return

    def _collect(self) -> None:
        """Take the worker's report on how the candidate ended."""
        if self._report is None and not self._lost:
            try:
                self._report = self._worker.report(time.monotonic() + REPORT_S)
            except WorkerLost as lost:
                self._lose(lost)
                return
            self._poll.unregister(self._worker.control)

    def _end(self) -> None:
        if self._forked and self._report is None and not self._lost:
            self._worker.end()
            self._collect()

    def _conclude(self) -> None:
        """Record why a process that closed its channel did so."""
        self._end()
        report = self._report
        if report is None or self._fault is not None:
            return
        used_up = report.cpu_s >= self._limits.cpu_s
        if report.cause == "processes":
            most = f"it started more than {self._limits.processes} processes"
            self._fail(Status.PROCESSES, most)
        elif (
            report.cause == "cpu" or report.signal == signal.SIGXCPU or (report.signal and used_up)
        ):
            self._fail(Status.TIMEOUT_CPU, f"it used {report.cpu_s:.2f} CPU seconds")
        elif report.signal == signal.SIGKILL and report.cause == "kill":
            self._fail(Status.PROTOCOL_ERROR, "it closed its channel")
        elif report.signal == signal.SIGKILL:
            self._fail(Status.MEMORY, "the system killed it, most likely for want of memory")
        elif report.signal:
            name = signal.Signals(report.signal).name
            self._fail(Status.CRASHED, f"its process died of signal {report.signal} ({name})")
        else:
            ended = f"its process exited with code {report.code} before it answered"
            self._fail(Status.EXITED_EARLY, ended)

    def _lose(self, lost: WorkerLost) -> None:
        self._lost = True
        self._fail(Status.SANDBOX_ERROR, f"the sandbox worker was lost: {lost}")

    def _fail(self, status: Status, detail: str) -> None:
        wall_s = time.monotonic() - self._started
        self._fault = Reply(status, None, detail, wall_s)
        self._end()


def _line(body: bytes) -> str:
    return clean(body.decode("utf-8", "replace"), _DETAIL)
