"""The training text: programs as prompts, and those edits of the mutator that are worth learning.

For made-up programs an edit is kept if the edited program runs and returns something new; for
functions of the library, which are not run, if it parses, lacks no name and is one of the milder
kinds. The imitator therefore starts above its teacher. Every program is a function of the seed and
its number, so the corpus does not depend on the number of processes that write it.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from evolve import mutate
from evolve.canonical import View, canonical_view
from evolve.edits import apply_answer, parse_completion
from evolve.pocket.blocks import invented_program
from evolve.pocket.library import library_programs, with_imports
from evolve.pocket.prompt import MAX_ANSWERS, render
from evolve.pocket.trials import inputs_for, limit_this_process, outcome, within
from evolve.reading import Change
from evolve.seeding import rng_for

#: Programs in one file of the corpus.
SHARD = 250
#: Completions of one prompt, which training computes together.
COMPLETIONS = 4
_SHARES = {"invented": 0.40, "sketch": 0.36, "library": 0.24}
_MILD = frozenset(("constant", "arithmetic", "comparison", "drop", "name", "operands", "delete"))
_ANSWERS = (1, 2, 3, 3, 3, 3, 3, 3, 4, 5)
_PROPOSED = 28
#: An example takes a tenth of a second; what takes this long does not come back at all.
_EXAMPLE_CPU_S = 20


def write_corpus(
    folder: Path, tokenizer_file: Path, shards: range, seed: int, processes: int
) -> Iterator[Path]:
    """Write the shards that are not there yet and yield each as it is done.

    Args:
        folder: Where the files go.
        tokenizer_file: ``tokenizer.json``, which measures prompts.
        shards: Numbers of the files wanted.
        seed: Seed of the recipe.
        processes: Number of builder processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        (folder / f"{number:04d}.jsonl", tokenizer_file, number, seed)
        for number in shards
        if not (folder / f"{number:04d}.jsonl").exists()
    ]
    library()  # read once, shared with the forked builders
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, limit_this_process) as pool:
        yield from pool.imap(_write_shard, jobs)


def sample_texts(count: int, seed: int) -> Iterator[str]:
    """Yield prompts and unfiltered completions for the training of the tokenizer."""
    for number in range(count):
        rng = rng_for(seed, "tokenizer", number)
        source = _draw_base(rng)[1]
        view = canonical_view(source)
        yield "r5w0m3" + "".join(f"\n{n}:{line}" for n, line in enumerate(view.lines, 1)) + "\n"
        yield mutate.propose(view, rng, 6)


@cache
def library() -> tuple[str, ...]:
    """Return the programs of :func:`library_programs`."""
    return tuple(library_programs())


@cache
def sketches() -> tuple[str, ...]:
    """Return the programs of ``sketches.txt``."""
    text = (Path(__file__).parent / "sketches.txt").read_text(encoding="utf-8")
    return tuple(with_imports(part) for part in text.split("\n\n"))


def example(rng: np.random.Generator, encoder: Tokenizer) -> tuple[str, list[str]] | None:
    """Return a prompt and its completions, or None if the drawn program is of no use."""
    kind, source = _draw_base(rng)
    if kind == "library":
        if rng.random() < 0.3:
            accepted = _library_edits(source, rng, 4)
            source = accepted[0][1] if accepted else source
        edits = _library_edits(source, rng, _PROPOSED)
    else:
        inputs = inputs_for(source, rng)
        if inputs is None or outcome(source, inputs) is None:
            return None
        for _ in range(min(10, int(rng.geometric(0.22)) - (kind == "invented"))):
            # Descendants look like what an archive holds, and no two are alike.
            other = [_draw_base(rng)[1]] if rng.random() < 0.3 else []
            found = _useful_edits(source, inputs, rng, 4, other)
            source = found[0][1] if found else source
        edits = _useful_edits(source, inputs, rng, _PROPOSED, [])
    view = canonical_view(source)
    if not view.names or len(edits) < 2:
        return None
    return _written(view, [text for text, _ in edits], rng, encoder)


def _written(
    view: View, edits: list[str], rng: np.random.Generator, encoder: Tokenizer
) -> tuple[str, list[str]] | None:
    m = int(rng.choice(_ANSWERS))
    k = int(rng.choice([2, 3, 3, 3, 4, 4, 5, 6, 8]))
    rewards = np.clip(rng.beta(1.5, 1.5) + rng.normal(0, 0.2, k), 0, 1)
    prompt = render(view.lines, list(rewards), list(rng.random(k)), m, rng, encoder=encoder)
    shown = {int(line.partition(":")[0]) for line in prompt.split("\n")[1:] if line}
    edits = [text for text in edits if _numbers(text) <= shown]
    m = min(m, MAX_ANSWERS)
    groups = [edits[first : first + m] for first in range(0, COMPLETIONS * m, m)]
    completions = [
        "\n".join(f"@{number}\n{text}" for number, text in enumerate(group, 1))
        for group in groups
        if len(group) == m
    ]
    return (prompt, completions) if completions else None


def _numbers(text: str) -> set[int]:
    """Return the shown lines that an answer needs to see."""
    edit = parse_completion(text, "line", 1)[0].edit or ()
    return {change.line for change in edit if isinstance(change, Change)} - {0}


def _draw_base(rng: np.random.Generator) -> tuple[str, str]:
    kind = str(rng.choice(list(_SHARES), p=list(_SHARES.values())))
    if kind == "invented":
        return kind, invented_program(rng)
    source = library() if kind == "library" else sketches()
    return kind, source[int(rng.integers(len(source)))]


def _useful_edits(
    source: str, inputs: list[list[object]], rng: np.random.Generator, count: int, others: list[str]
) -> list[tuple[str, str]]:
    """Return (edit, edited program) for those of ``count`` edits that run and change the output."""
    seen = {outcome(source, inputs)}
    found = []
    for text, child, _ in _edits(source, rng, count, others):
        result = outcome(child, inputs)
        if result is not None and result not in seen:
            seen.add(result)
            found.append((text, child))
    return found


def _library_edits(source: str, rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
    return [
        (text, child)
        for text, child, operator in _edits(source, rng, count, [])
        if _MILD.issuperset(operator.split("+"))
    ]


def _edits(
    source: str, rng: np.random.Generator, count: int, others: list[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield (edit without its opening line, edited program, operators), each program once."""
    view = canonical_view(source)
    completion, operators = mutate.propose_with_operators(view, rng, count, others)
    seen = set()
    for answer in parse_completion(completion, "line", count):
        applied = apply_answer(view, answer)
        if applied.source is not None and applied.fingerprint not in seen:
            seen.add(applied.fingerprint)
            text = answer.text.partition("\n")[2].rstrip("\n")
            yield text, applied.source, operators[answer.index]


def _write_shard(job: tuple[Path, Path, int, int]) -> Path:
    path, tokenizer_file, number, seed = job
    encoder = Tokenizer.from_file(str(tokenizer_file))
    sketches()  # as the library: read once, not by every child
    lines = []
    for index in range(SHARD):
        rng = rng_for(seed, "corpus", number, index)
        found = within(_EXAMPLE_CPU_S, partial(example, rng, encoder))
        if found is not None:
            lines.append(json.dumps(found))
    part = path.with_suffix(".part")
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    part.rename(path)
    return path
