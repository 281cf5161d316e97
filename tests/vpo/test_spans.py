import itertools

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from vpo.spans import token_ends, token_span

TEXT = "@1\n3=    x = 1\n@2\n5-\n@3\n0+y = 'ä€𝄞'\n"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Byte-level, trained on another text, so that TEXT's last characters are cut into bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(["x = 1\ny = 2\n    x = 1\n@1\n@2\n"] * 9, trainer)
    return tokenizer


@pytest.mark.parametrize("text", [TEXT, TEXT.encode("ascii", "ignore").decode()])
def test_spans_hold_exactly_their_answer(tokenizer, text):
    ids = tokenizer.encode(text).ids
    ends = token_ends(ids, text, tokenizer.decode)
    assert ends[-1] == len(text)
    assert ends == sorted(ends)
    starts = [text.index(f"@{i}") for i in (1, 2, 3)] + [len(text)]
    for start, stop in itertools.pairwise(starts):
        first, last = token_span(ends, start, stop)
        assert tokenizer.decode(ids[first:last]) == text[start:stop]


def test_a_character_belongs_to_the_token_that_completes_it(tokenizer):
    ids = tokenizer.encode("€").ids
    assert len(ids) == 3
    ends = token_ends(ids, "€", tokenizer.decode)
    assert ends == [0, 0, 1]
    assert token_span(ends, 0, 1) == (2, 3)


def test_a_token_across_a_border_belongs_to_both_sides():
    words = {0: "ab", 1: "cd", 2: "ef"}
    ends = token_ends([0, 1, 2], "abcdef", lambda ids: "".join(words[i] for i in ids))
    assert ends == [2, 4, 6]
    assert token_span(ends, 0, 3) == (0, 2)
    assert token_span(ends, 3, 6) == (1, 3)
    assert token_span(ends, 3, 3) == (1, 1)


def test_the_text_may_lack_the_end_token():
    words = {0: "ab", 1: "</s>"}
    ends = token_ends([0, 1], "ab", lambda ids: "".join(words[i] for i in ids))
    assert ends == [2, 2]
    assert token_span(ends, 0, 2) == (0, 1)


def test_a_decoder_that_treats_the_first_token_apart():
    words = {0: " a", 1: " b"}
    ends = token_ends([0, 1], "a b", lambda ids: "".join(words[i] for i in ids).lstrip())
    assert ends == [1, 3]
