"""Finding the processes of a sandbox from outside, to do to them what a bad day does."""

import contextlib
from pathlib import Path


def children(pid):
    """Pids of the children of ``pid``, whichever of its threads started them."""
    found = []
    # A process or a thread that ends meanwhile has none.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in (thread / "children").read_text().split()]
    return found


def descendants(pid):
    """Pids below ``pid``, parents before children."""
    found = children(pid)
    for child in found:
        found = [*found, *(p for p in descendants(child) if p not in found)]
    return found


def zygote(worker):
    """Pid of the Python process of a worker: below bubblewrap's two, if there are namespaces."""
    for pid in [worker.process.pid, *descendants(worker.process.pid)]:
        if Path(f"/proc/{pid}/comm").read_text().startswith("python"):
            return pid
    raise AssertionError(f"worker {worker.index} has no Python process")


def alive(pid):
    """Whether there is a process ``pid`` that is not just waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
