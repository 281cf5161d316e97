"""The example task that ``vpo new`` writes: three qualities of a line that conflict."""

from __future__ import annotations

import json
from pathlib import Path

_REWARD = '''\
"""The judge of this task. It runs in the training process: never execute an answer here."""

import re
import string

KINDS = {"digits": string.digits, "letters": string.ascii_letters, "signs": string.punctuation}


def find_answers(text):
    """Return the character spans of the answers: here, of the lines that are not blank.

    Without this function answers are what stands between <answer> and </answer>.
    """
    return [match.span() for match in re.finditer(r"[^\\n]*\\S[^\\n]*", text)]


def reward(prompt, answers):
    """Return one row of rewards in [0, 1] for each answer; prompt is its line of prompts.jsonl.

    Here each kind of character wants the line for itself: only lines that differ serve all.
    """
    return [[share(answer, kind) for kind in prompt["kinds"]] for answer in answers]


def share(answer, kind):
    return sum(character in KINDS[kind] for character in answer) / len(answer)
'''
_PROMPTS = (
    ("Write three lines.", "train"),
    ("Write three short lines.", "train"),
    ("Write three lines that differ.", "train"),
    ("Write three lines of text.", "test"),
)


def write_example(folder: Path) -> list[Path]:
    """Write the example into ``folder`` and return the files.

    Raises:
        ValueError: If the folder is there already.
    """
    if folder.exists():
        raise ValueError(f"{folder} is there already; choose another name")
    folder.mkdir(parents=True)
    kinds = ["digits", "letters", "signs"]
    rows = [{"prompt": text + "\n", "kinds": kinds, "split": split} for text, split in _PROMPTS]
    files = [folder / "prompts.jsonl", folder / "reward.py"]
    files[0].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    files[1].write_text(_REWARD, encoding="utf-8")
    return files
