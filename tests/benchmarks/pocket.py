"""What share of the pocket model's answers can be read, run, and are worth a look, by task.

None of the tasks is in its training text. The parents are each task's starting program and
descendants of it that run; the scripted mutator, which the model imitates, faces the same ones in
the same run. Shares are of all answers asked for, at temperature 1 and before any filter:

    reads    the edit could be read and its lines exist
    parses   and gives a program that parses, lacks no name and is not its parent again
    runs     and the judge accepts what it returns on a small case
    useful   and it is the first of its kind among all answers to that parent, and returns
             something else than the parent

"kept" is the share that passes the static filter of a campaign (parses, lacks no name, is not its
parent, not seen before), and the shares after it are of the kept. A second table counts what
resampling adds: further completions are drawn until as many answers are kept as were asked for, or
as many again were drawn. The tasks are the three that the model's figures are stated for, or those
that are named.

    python -m tests.benchmarks.pocket [TASK ...] [--weights FOLDER] [--parents 8] [--completions 16]
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from evolve import mutate, pocket
from evolve.canonical import View, canonical_view
from evolve.edits import apply_answer, parse_completion
from evolve.program import fingerprint
from evolve.sandbox import Pool, Status
from evolve.seeding import rng_for, seed_for
from evolve.task import Invalid, Task, load_task

TASKS = ("circle_packing", "online_bin_packing", "symbolic_regression")
ANSWERS = 3
_MISREAD = frozenset(("unreadable", "empty", "bad_line", "too_large", "outside_block"))

#: (view, key, number of completions) -> completions.
Writer = Callable[[View, str, int], list[str]]


@dataclass
class Shares:
    """Counts of what became of the answers."""

    asked: int = 0
    reads: int = 0
    parses: int = 0
    runs: int = 0
    useful: int = 0
    kept: int = 0
    kept_runs: int = 0
    kept_useful: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, other: Shares) -> None:
        """Add the counts of another task."""
        for name, value in vars(other).items():
            if name == "faults":
                self.faults.update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def line(self, name: str) -> str:
        """Return the shares as a line of the table."""
        first = [self.reads, self.parses, self.runs, self.useful, self.kept]
        shares = [n / max(1, self.asked) for n in first]
        shares += [n / max(1, self.kept) for n in (self.kept_runs, self.kept_useful)]
        return f"{name:34s}" + "".join(f"{100 * share:8.1f}" for share in shares)

    def resampled_line(self, name: str, asked: int) -> str:
        """Return the shares of the ``asked`` places that resampling filled, as a line."""
        shares = [n / asked for n in (self.kept, self.kept_runs, self.kept_useful)]
        drawn = self.asked / max(1, self.kept)
        return f"{name:34s}" + "".join(f"{100 * share:8.1f}" for share in shares) + f"{drawn:8.2f}"


def digest_of(task: Task, source: str, pool: Pool) -> str | None:
    """Return the digest of a program's answer to the first case, or None if it is not accepted."""
    case = task.case(task.stages[0].cases[0])
    session = pool.session(source)
    try:
        reply = session.call(case.given)
    finally:
        session.close()
    if reply.status != Status.OK:
        return None
    try:
        task.score(reply.output, case)
    except Invalid:
        return None
    return reply.digest


def parents_of(task: Task, pool: Pool, count: int) -> list[str]:
    """Return the starting program and descendants of it, each by 1 to 8 edits that ran."""
    parents = [task.initial]
    while len(parents) < count:
        rng = rng_for(0, "parents", task.name, len(parents))
        source = task.initial
        for _ in range(int(rng.integers(1, 9))):
            text = mutate.propose(canonical_view(source), rng, 6)
            for answer in parse_completion(text, "line", 6):
                child = apply_answer(canonical_view(source), answer).source
                if child is not None and digest_of(task, child, pool) is not None:
                    source = child
                    break
        parents.append(source)
    return parents


def measure(
    task: Task, parents: Sequence[str], pool: Pool, write: Writer, repeats: int
) -> tuple[Shares, Shares]:
    """Return what became of the answers of ``repeats`` completions for each parent.

    Returns:
        Counts without and with resampling.
    """
    plain, resampled = Shares(), Shares()
    for number, parent in enumerate(parents):
        view = canonical_view(parent)
        old = digest_of(task, parent, pool)
        seen = {fingerprint(parent)}
        key = f"{task.name} {number}"
        here = Shares()
        for text in write(view, key, repeats):
            _count(here, text, view, old, seen, task, pool)
        plain.add(here)
        wanted, more = ANSWERS * repeats, 0
        while here.kept < wanted and here.asked < 2 * wanted:
            more += 1
            for text in write(view, f"{key} again {more}", 1):
                _count(here, text, view, old, seen, task, pool, wanted)
        resampled.add(here)
    return plain, resampled


def _count(
    shares: Shares,
    text: str,
    view: View,
    old: str | None,
    seen: set[str],
    task: Task,
    pool: Pool,
    places: float = math.inf,
) -> None:
    """Add what became of the answers of one completion, until ``places`` are kept."""
    answers = parse_completion(text, "line", ANSWERS)
    for place in range(ANSWERS):
        if shares.kept >= places:
            break
        shares.asked += 1
        if place >= len(answers):
            shares.faults["missing"] += 1
            continue
        answer = answers[place]
        applied = apply_answer(view, answer)
        shares.faults[applied.fault or "none"] += 1
        shares.reads += applied.fault not in _MISREAD
        if applied.source is None or applied.fingerprint is None:
            continue
        shares.parses += 1
        new = applied.fingerprint not in seen
        seen.add(applied.fingerprint)
        digest = digest_of(task, applied.source, pool)
        useful = new and digest is not None and digest != old
        shares.runs += digest is not None
        shares.useful += useful
        shares.kept += new
        shares.kept_runs += new and digest is not None
        shares.kept_useful += useful


def scripted(view: View, key: str, repeats: int) -> list[str]:
    """Return completions of the scripted mutator."""
    rng = rng_for(0, "scripted", key)
    return [mutate.propose(view, rng, ANSWERS) for _ in range(repeats)]


def model_writer(folder: Path, temperature: float) -> Writer:
    """Return a function that samples completions from the model in a folder."""
    from vpo.sampling import generate

    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    encoder = Tokenizer.from_file(str(folder / "tokenizer.json"))
    eos = model.config.eos_token_id

    def write(view: View, key: str, repeats: int) -> list[str]:
        rng = rng_for(0, "prompt", key)
        prompt = pocket.render(
            view.lines, list(rng.random(3)), list(rng.random(3)), ANSWERS, rng, encoder=encoder
        )
        samples = next(
            iter(
                generate(
                    model,
                    [encoder.encode(prompt).ids],
                    repeats,
                    max_new_tokens=200,
                    eos_id=eos,
                    seeds=[seed_for(0, "sample", key)],
                    temperature=temperature,
                )
            )
        )
        return [encoder.decode(list(sample.ids)) for sample in samples]

    return write


def rows(
    writers: dict[str, Writer], tasks: Sequence[str], parents: int, repeats: int
) -> Iterator[tuple[str, str, Shares, Shares]]:
    """Yield (writer, task, shares, shares with resampling)."""
    for name in tasks:
        task = load_task(name)
        with Pool(task.runner, task.preload, task.limits, workers=1) as pool:
            sources = parents_of(task, pool, parents)
            for writer, write in writers.items():
                yield writer, name, *measure(task, sources, pool, write, repeats)


def _head(title: str, names: Sequence[str]) -> str:
    return f"{title:34s}" + "".join(f"{name:>8s}" for name in names)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--weights", type=Path, default=pocket.weights_folder())
    parser.add_argument("--parents", type=int, default=8)
    parser.add_argument("--completions", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=1.0)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    writers = {
        "pocket": model_writer(chosen.weights, chosen.temperature),
        "mutate": scripted,
    }
    names = ("reads", "parses", "runs", "useful", "kept", "runs", "useful")
    print(_head("% of answers, then % of those kept", names))
    totals = {name: (Shares(), Shares()) for name in writers}
    later = []
    for writer, task, *both in rows(writers, chosen.tasks, chosen.parents, chosen.completions):
        print(both[0].line(f"{writer} {task}"), flush=True)
        later.append(both[1].resampled_line(f"{writer} {task}", both[0].asked))
        for total, shares in zip(totals[writer], both, strict=True):
            total.add(shares)
    for writer, (plain, resampled) in totals.items():
        print(plain.line(f"{writer} all"))
        print(f"    {dict(plain.faults.most_common())}")
        later.append(resampled.resampled_line(f"{writer} all", plain.asked))
    print()
    print(_head("with resampling, % of those asked", ("kept", "runs", "useful", "drawn")))
    print("\n".join(later))


if __name__ == "__main__":
    main()
