"""The tokenizer of the pocket model: byte-level BPE in which the parts of an edit are one token.

Single tokens are the shown names v0 to v99, the start of a numbered line (line end and number, to
99), answer openings @1 to @9, the header's marks, a change's sign with the indentation after it, an
operator with the blanks around it, and whatever the training text has often, ``np.sqrt(`` for
instance. Any text survives the way through: what is no token of its own is spelt in bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

PAD, EOS = "<pad>", "<eos>"
#: Multiple of 64, which matrix products like.
VOCABULARY = 1792
#: Names and line numbers below this are one token.
SINGLE = 100

_WORDS = "if|else|for|in|is|is not|not in|and|or|as"
_OPENERS = "not|return|for|if|while|lambda|yield|raise|assert|del|import|from|def|class|elif|with"
_PIECES = "|".join(
    [
        r"\n\d{1,3}(?=[:=+\-])",  # the start of a numbered line or of a change
        r"[:=+] {4,}",  # its sign and indentation
        r"\n",
        r"@\d+",
        r"(?<![A-Za-z0-9_.])[vrwm]\d+(?![A-Za-z0-9_.])|(?<![A-Za-z0-9_.])v\d+",
        r"(?<![A-Za-z0-9_])[rwm]\d{1,2}(?=[rwm\d\n])",
        r" {2,}",
        rf" (?:{_WORDS}) (?:not )?",
        r" (?:\*\*|//|<<|>>|->|:=|[-+*/%@&|^<>=!]=?|\*\*=|//=|<<=|>>=) ",
        rf"(?<![A-Za-z0-9_.])(?:{_OPENERS}) ",
        r", |: (?! )",
        r"\[:, None\]|\[None, :\]|axis=-?[01]",
        r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\(?",
        r"(?:\.[A-Za-z_][A-Za-z0-9_]*)+\(?",
        r"\d+(?:\.\d+)?(?:e-?\d+)?",
        r"[)\]}]+:?",
        r"\s",
        r"[^\s\w]",
        r"\w",
    ]
)


def train_tokenizer(texts: Iterable[str], size: int = VOCABULARY) -> Tokenizer:
    """Return a tokenizer for texts that look like prompts and completions.

    The tokens that must be single come from merges put before the learned ones; since no learned
    merge crosses a piece, the two kinds never compete.

    Args:
        texts: Training texts.
        size: Number of tokens, byte tokens and the two special ones included.
    """
    forced, merges = _forced()
    learner = Tokenizer(models.BPE())
    _equip(learner)
    learner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[PAD, EOS],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            min_frequency=3,
            show_progress=False,
        ),
    )
    learned = json.loads(learner.to_str())["model"]
    names = [PAD, EOS, *sorted(pre_tokenizers.ByteLevel.alphabet()), *forced]
    known = set(names)
    for left, right in learned["merges"]:
        if len(names) == size:
            break
        if left in known and right in known:
            merges.append((left, right))
            if left + right not in known:
                names.append(left + right)
                known.add(left + right)
    tokenizer = Tokenizer(
        models.BPE(vocab={name: index for index, name in enumerate(names)}, merges=merges)
    )
    _equip(tokenizer)
    tokenizer.add_special_tokens([PAD, EOS])
    return tokenizer


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Return the id of a token that must be there.

    Raises:
        KeyError: If it is not.
    """
    found: int | None = tokenizer.token_to_id(token)
    if found is None:
        raise KeyError(token)
    return found


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the files that ``AutoTokenizer`` reads."""
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=EOS,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        padding_side="left",
        model_max_length=1024,
    ).save_pretrained(str(folder))


def _equip(tokenizer: Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()


def _forced() -> tuple[list[str], list[tuple[str, str]]]:
    """Return the tokens that must exist, and the merges that make them."""
    merges: list[tuple[str, str]] = []
    line = "Ċ"  # the byte-level alphabet's letter for a line end
    for start, count in (("v", SINGLE), (line, SINGLE), ("@", 10), ("r", 10), ("w", 32), ("m", 10)):
        merges += [(start, str(n)) for n in range(min(count, 10))]
        merges += [(f"{start}{n // 10}", str(n % 10)) for n in range(10, count)]
    tokens = dict.fromkeys(left + right for left, right in merges)
    return list(tokens), merges
