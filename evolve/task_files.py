"""The files that make a task, as one digest: equal digests judge alike."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path


def digest_of(folder: Path, files: Sequence[str] = ()) -> str:
    """Return a digest of the names and contents of a task folder's files.

    Args:
        folder: The folder; its Python files count.
        files: Names of the program's files, which count in any language.
    """
    hasher = blake2b(digest_size=12)
    for path in sorted({*folder.glob("*.py"), *(folder / name for name in files)}):
        hasher.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hasher.hexdigest()
