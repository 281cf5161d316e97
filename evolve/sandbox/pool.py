"""Warm workers that wait for candidates, and their replacement when one dies."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

from evolve.errors import SandboxError, TaskError
from evolve.sandbox import wire
from evolve.sandbox.session import Session
from evolve.sandbox.text import clean
from evolve.sandbox.tiers import choose
from evolve.sandbox.worker import Profile, StartError, Worker
from evolve.task import Command, Limits

_MAX_REPLACEMENTS = 6


class Pool:
    """Workers that wait for programs. Threads may share it; each session belongs to one thread.

    Attributes:
        tier: The isolation that candidates get.
        cores: Processors that candidates may run on, empty for all.
        lane: A pool of one worker on a core that the others keep off, None without one.
        turn: Held by who is timing programs here and wants no other in between.
        fastest: Largest speed-up measured here so far.
    """

    def __init__(
        self,
        runner: str,
        preload: Sequence[str] = ("numpy",),
        limits: Limits | None = None,
        workers: int = 2,
        min_tier: str = "B",
        *,
        tier: str | None = None,
        lane: bool = False,
        cores: Sequence[int] = (),
        command: Command | None = None,
    ) -> None:
        """Start the workers and wait until they are warm.

        Args:
            runner: Source of the task's ``run.py``.
            preload: Modules imported once, before candidates are forked.
            limits: What one candidate may use.
            workers: Number of processes; each evaluates one candidate at a time.
            min_tier: Weakest isolation accepted, ``"A"`` (strongest) to ``"D"``, see
                :mod:`evolve.sandbox.tiers`; the strongest that works is taken.
            tier: Take exactly this one, untried; for comparisons.
            lane: Have a lane for timing programs.
            cores: Processors that candidates may run on, by default all.
            command: How programs are built and run, None for Python.

        Raises:
            TaskError: If a module is missing or the runner is broken.
            SandboxError: If workers do not start, the isolation is weaker than ``min_tier``, or
                there is no core to spare for a lane.
        """
        self.limits = limits or Limits()
        self.workers = workers
        self.tier = tier or choose(min_tier)
        if self.tier != "A" and (self.limits.scratch_mb or self.limits.processes):
            raise SandboxError(
                "candidates that may write files or start processes need isolation of tier A, and "
                f"this machine gives {self.tier}: install bubblewrap (apt-get install bubblewrap); "
                "evolve sandbox check says what else is amiss"
            )
        self.lane: Pool | None = None
        self.turn, self.fastest = threading.Lock(), 0.0
        if lane:
            *cores, own = sorted(os.sched_getaffinity(0))
            if not cores:
                raise SandboxError(
                    "a task that times programs needs two processors or more: one is its lane"
                )
            self.lane = Pool(
                runner, preload, limits, 1, tier=self.tier, cores=[own], command=command
            )
        self.cores = tuple(cores)
        self._profile = Profile(runner, tuple(preload), self.limits, self.tier, self.cores, command)
        self._aborted = False
        #: Idle workers, numbers of places whose worker is gone, and None once all is aborted.
        self._idle: queue.SimpleQueue[Worker | int | None] = queue.SimpleQueue()
        self._replaced_in_a_row = 0
        self._encoded: dict[int, tuple[object, bytes]] = {}
        # The kernel ties a worker's life to the thread that started it, so one thread starts all.
        self._starter = ThreadPoolExecutor(1, "sandbox")
        self._alive: dict[int, Worker] = {}
        try:
            started = [self._spawn(index) for index in range(workers)]
            for worker in started:
                worker.wait_ready()
                self._idle.put(worker)
            self._check_runner()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, and with them any session that is still open."""
        if self.lane is not None:
            self.lane.close()
        for worker in self._alive.values():
            worker.kill()
        self._alive.clear()
        self._starter.shutdown()

    def abort(self) -> None:
        """Kill every worker at once and start no other; may be called from a signal handler.

        Threads with a session see its worker lost, those that wait for one get an error.
        """
        if self.lane is not None:
            self.lane.abort()
        self._aborted = True
        self._idle.put(None)
        for worker in list(self._alive.values()):
            worker.process.send_signal(signal.SIGKILL)

    def session(self, source: str) -> Session:
        """Return a conversation with a fresh process that executes ``source``.

        Waits for an idle worker. What is wrong with the program shows at the first call.

        Raises:
            SandboxError: If workers keep dying, or the pool was aborted.
        """
        worker = self._idle.get()
        if self._aborted or worker is None:
            # For the next who waits.
            self._idle.put(None)
            raise SandboxError("the run was interrupted")
        if isinstance(worker, Worker) and worker.process.poll() is not None:
            # It died in its sleep.
            worker.kill()
            worker = worker.index
        if not isinstance(worker, Worker):
            index = worker
            try:
                worker = self._replace(index)
            except BaseException:
                self._idle.put(index)
                raise
        return Session(worker, source, self.limits, self.encode, self._release)

    def encode(self, given: Any) -> bytes:
        """Return a case's input as bytes; equal for the same object, whatever a judge does to it.

        Raises:
            TaskError: If it is not plain data.
        """
        known = self._encoded.get(id(given))
        if known is not None and known[0] is given:
            return known[1]
        try:
            data = wire.encode(given)
        except wire.WireError as error:
            raise TaskError(f"the input of a case cannot go to the sandbox: {error}") from None
        if len(self._encoded) >= 1024:
            self._encoded.clear()
        self._encoded[id(given)] = (given, data)
        return data

    def _release(self, worker: Worker, alive: bool) -> None:
        if alive:
            self._replaced_in_a_row = 0
            self._idle.put(worker)
        else:
            worker.kill()
            self._idle.put(worker.index)

    def _spawn(self, index: int) -> Worker:
        worker = self._starter.submit(Worker, index, self._profile).result()
        self._alive[index] = worker
        return worker

    def _replace(self, index: int) -> Worker:
        while True:
            self._replaced_in_a_row += 1
            if self._replaced_in_a_row > _MAX_REPLACEMENTS:
                raise SandboxError(
                    f"sandbox workers died {_MAX_REPLACEMENTS} times in a row; is the machine out "
                    "of memory? Fewer workers (sandbox.workers) or a smaller limits.memory_mb may "
                    "help"
                )
            worker = self._spawn(index)
            try:
                worker.wait_ready()
            except StartError:
                worker.kill()
            except BaseException:
                worker.kill()
                raise
            else:
                return worker

    def _check_runner(self) -> None:
        with self.session("") as session:
            fault = session.load()
            printed = clean(session.close().stderr_tail, 300)
        if fault is not None:
            raise SandboxError(
                f"the sandbox cannot run an empty program: {fault.detail} {printed}".rstrip()
            )
