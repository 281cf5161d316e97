"""Opening a run: from a configuration or a folder to a campaign whose parts are all there.

Everything that can be wrong with a task, a policy or the sandbox is found here, before the first
round, and nothing is left behind when it is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from evolve.campaign import Campaign, Learner, Observer, judge_start, plant
from evolve.config import Config, dump_config, load_config
from evolve.errors import StoreError, TaskError
from evolve.evaluate import Evaluation, evaluate, open_pool
from evolve.policy import Policy, ScriptedPolicy, check_language, check_name
from evolve.sandbox import MEANING, Pool
from evolve.server import ServerPolicy, open_server
from evolve.state import SearchState
from evolve.store import Store
from evolve.task import Task, load_task
from evolve.task_files import digest_of

#: What a run on a pair is marked with.
SELF_JUDGED = (
    "the evaluator runs beside the program that it judges: the figures are the program's own word"
)


def new_folder(config: Config, root: Path) -> Path:
    """Return a folder for a run that does not exist yet: root/task/time-policy-seed."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    policy = "".join(c if c.isalnum() else "-" for c in config.policy.name)
    folder = root / Path(config.task).name / f"{stamp}-{policy}-s{config.seed}"
    tries = 1
    while folder.exists():
        tries += 1
        folder = folder.with_name(f"{stamp}-{policy}-s{config.seed}-{tries}")
    return folder


def start(config: Config, folder: Path, observer: Observer) -> SearchState:
    """Run a new campaign in ``folder`` until its budget is used up or it is stopped.

    Raises:
        EvolveError: If any part of it cannot be opened; the folder is then not made.
    """
    return _run(config, folder, observer, fresh=True)


def resume(folder: Path, observer: Observer) -> SearchState:
    """Go on with the campaign of a run folder.

    Raises:
        EvolveError: If the folder holds no run or a part of it cannot be opened.
    """
    if not (folder / "run.db").is_file():
        raise StoreError(f"{folder}: no run.db, so this is not a run folder")
    path = folder / "config.toml"
    config = load_config(path)
    try:
        load_task(config.task)
    except TaskError as error:
        raise TaskError(
            f"{error}; if the task has moved, give its place as task in {path}"
        ) from None
    return _run(config, folder, observer, fresh=False)


def _run(config: Config, folder: Path, observer: Observer, fresh: bool) -> SearchState:
    task = load_task(config.task)
    check_language(config.policy.name, task.initial)
    if config.policy.name != "mutate":
        # A model and its libraries take seconds to load, on a busy machine half a minute.
        observer.on_event("loading", config.policy.name)
    policy, learner = open_policy(config, folder)
    with (
        open_pool(task, config.sandbox.workers, config.sandbox.min_tier) as pool,
        _off_the_lane(pool),
    ):
        _tell_tier(pool.tier, observer)
        if task.self_judged:
            observer.on_event("SELF-JUDGED", SELF_JUDGED)

        def judge(source: str) -> Evaluation:
            return evaluate(task, source, pool)

        # Before the folder is made: a task that fails at once leaves nothing behind.
        if fresh and isinstance(policy, ServerPolicy):
            policy.check()
        verdict = judge_start(task, judge) if fresh else None
        text = dump_config(config) if fresh else None
        with Store(folder, "create" if fresh else "write", text) as store:
            _note_tier(pool.tier, store)
            _note_judge(task, store)
            _note_task(task, store)
            if store.last_id("candidates") < 0:
                plant(store, task, config, verdict or judge_start(task, judge))
            if learner is not None:
                active = [version for version in store.versions() if version.active]
                learner.load(active[-1].version if active else 0)
            campaign = Campaign(task, config, store, policy, judge, observer, learner)
            if isinstance(policy, ServerPolicy):
                policy.connect(store, observer.on_event, lambda: campaign.stopped)
            with _interrupts(campaign, pool):
                return campaign.run()


def _tell_tier(tier: str, observer: Observer) -> None:
    """Say how candidates are isolated; loudly where that is not enough."""
    kind = "isolation" if tier in "AB" else "UNSAFE"
    observer.on_event(kind, f"candidates run at tier {tier}: they {MEANING[tier]}")


def _note_judge(task: Task, store: Store) -> None:
    """Put on record that the figures of a run are the candidates' own word."""
    if task.self_judged and store.meta("self_judged") is None:
        with store.transaction():
            store.set_meta("self_judged", True)
            store.add_event(0, "SELF-JUDGED", SELF_JUDGED)


def _note_task(task: Task, store: Store) -> None:
    """Put the task's files on record, and refuse to go on with others.

    Raises:
        StoreError: If they have changed since the run began.
    """
    now, then = digest_of(task.folder, task.files), store.meta("task_digest")
    if then is None:
        with store.transaction():
            store.set_meta("task_digest", now)
    elif then != now:
        raise StoreError(
            f"{task.folder}: its files are not those with which {store.folder} began, and rewards "
            f"of two judges do not compare: put them back, or begin a new run"
        )


def _note_tier(tier: str, store: Store) -> None:
    """Put the isolation of this session on record; a run may go on on another machine."""
    former = store.meta("tier")
    if former == tier:
        return
    with store.transaction():
        store.set_meta("tier", tier)
        if former is not None:
            rounds = len(store.rounds())
            store.add_event(rounds, "isolation", f"tier {tier} from here on, before: {former}")


@contextmanager
def _off_the_lane(pool: Pool) -> Iterator[None]:
    """Keep this thread, and those that it starts, off the core on which programs are timed."""
    if pool.lane is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, pool.cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def open_policy(config: Config, folder: Path) -> tuple[Policy, Learner | None]:
    """Return the policy of a configuration and what trains it, None for one without a model.

    Raises:
        ConfigError: If no policy has that name.
        PolicyError: If its model cannot be loaded.
    """
    check_name(config.policy.name)
    if config.policy.name == "mutate":
        return ScriptedPolicy(), None
    if config.policy.name.startswith("openai:"):
        return open_server(config), None
    # Here and not above: it loads torch.
    from evolve.learning import open_model

    return open_model(config, folder)


@contextmanager
def _interrupts(campaign: Campaign, pool: Pool) -> Iterator[None]:
    """Let the first Ctrl-C end the run after the candidates in flight, the second at once."""

    def first(_signal: int, _frame: FrameType | None) -> None:
        campaign.stop()
        signal.signal(signal.SIGINT, second)
        campaign.observer.on_event(
            "stopping", "ending after the candidates in flight; Ctrl-C again ends at once"
        )

    def second(_signal: int, _frame: FrameType | None) -> None:
        # Without their workers, the threads that wait for candidates end too.
        pool.abort()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
