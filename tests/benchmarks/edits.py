"""How fast edits are proposed, read, applied and told apart.

``python -m tests.benchmarks.edits`` prints CPU time, and its ratio to one ``ast.parse`` of the same
programs in the same run.
"""

import ast
import statistics
import time
from itertools import count

import numpy as np

from evolve.canonical import canonical_view, to_source
from evolve.edits import apply_answer, parse_completion
from evolve.mutate import propose
from evolve.program import check, fingerprint
from tests.evolve.test_mutate import PACK, PRIORITY

# One function, so that no statement of the module level is shared with the parent.
LONG = (
    "import numpy as np\n\n# EVOLVE-BLOCK-START\ndef score(x, y):\n"
    + "".join(f"    a{i} = np.sqrt(x * {i}.5 + y) / (1.0 + {i})\n" for i in range(38))
    + "    return a0 + a37\n# EVOLVE-BLOCK-END\n"
)
REPEATS = 300


def cost(work, items):
    """Return the median CPU time of one call, in microseconds."""
    times = []
    for item in items:
        start = time.thread_time()
        work(item)
        times.append((time.thread_time() - start) * 1e6)
    return statistics.median(times)


def measure(source):
    """Return what is measured -> microseconds for one answer, or for one call."""
    view, tree = canonical_view(source), ast.parse(source)
    rng, fresh = np.random.default_rng(0), count(1)
    last = len(view.lines)

    def new_answer():
        # A number that was never seen, so that no cache knows the program.
        text = f"@1\n{last}=    return {next(fresh)}.5"
        return parse_completion(text, "line", 1)[0]

    texts = [propose(view, rng, 3, [PACK]) for _ in range(REPEATS)]
    answers = [new_answer() for _ in range(REPEATS)]
    sources = [apply_answer(view, new_answer()).source for _ in range(REPEATS)]
    renewed = [text.replace(".5", ".25") for text in sources]
    return {
        "ast.parse": cost(ast.parse, sources),
        "fingerprint of a tree": cost(fingerprint, [tree] * REPEATS),
        "check of a new text": cost(check, renewed),
        "propose": cost(lambda _: propose(view, rng, 3, [PACK]), texts) / 3,
        "parse_completion": cost(lambda text: parse_completion(text, "line", 3), texts) / 3,
        "to_source": cost(lambda _: to_source(view, view.blocks()), texts),
        "apply_answer, check included": cost(lambda answer: apply_answer(view, answer), answers),
        "canonical_view (one a prompt)": cost(canonical_view.__wrapped__, [source] * 100),
    }


def main():
    """Print the table."""
    for name, source in (("one function of 40 lines", LONG), ("19 lines", PACK), ("11", PRIORITY)):
        rows = measure(source)
        print(name)
        for row, microseconds in rows.items():
            ratio = microseconds / rows["ast.parse"]
            print(f"  {row:30s} {microseconds:7.0f} us {ratio:6.2f} x ast.parse")
        print(f"  edits proposed a second {1e6 / rows['propose']:.0f}")


if __name__ == "__main__":
    main()
