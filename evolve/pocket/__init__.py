"""The pocket model: an embedded policy of a few million parameters that writes line edits.

Its weights are in the folder ``weights``, their making in ``MODEL_CARD.md``. Importing this package
loads neither torch nor transformers.
"""

from evolve.pocket.prompt import (
    MAX_ANSWERS,
    MAX_PROMPT_TOKENS,
    header,
    render,
    tokenizer,
    weights_folder,
)

__all__ = [
    "MAX_ANSWERS",
    "MAX_PROMPT_TOKENS",
    "header",
    "render",
    "tokenizer",
    "weights_folder",
]
