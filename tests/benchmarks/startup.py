"""How long a newcomer waits for ``evolve --help``, against its limit and against bare Python.

Each command runs as a process of its own; the figures are the medians.

    python -m tests.benchmarks.startup [--repeats 9]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 0.5


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    script = str(Path(sys.executable).with_name("evolve"))
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import evolve'": [sys.executable, "-c", "import evolve"],
        "evolve --help": [script, "--help"],
        "evolve run --help": [script, "run", "--help"],
    }
    print(f"{'command':28s}{'ms':>8s}{'to bare':>9s}{'to limit':>9s}")
    bare = None
    for name, command in commands.items():
        seconds = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - start)
        median = statistics.median(seconds[1:])  # the first fills the file cache
        bare = bare or median
        print(f"{name:28s}{1000 * median:8.0f}{median / bare:8.1f}x{median / LIMIT_S:8.2f}x")


if __name__ == "__main__":
    main()
