"""Reading completions and applying answers, on worked examples, an oracle and hostile text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolve.canonical import canonical_view, raw_view
from evolve.edits import MAX_COMPLETION_CHARS, apply_answer, parse_completion
from evolve.errors import EvolveError
from evolve.program import MAX_SOURCE_BYTES, fingerprint, split_blocks
from evolve.reading import Change

SOURCE = """\
import numpy as np

# EVOLVE-BLOCK-START
def f(x):
    a = x + 1
    b = a * 2
    return a - b
# EVOLVE-BLOCK-END

LIMIT = 3
"""
BLOCK = split_blocks(SOURCE)[0].lines
RAW = raw_view(SOURCE)


def faults(text, form="line", m=3):
    return [answer.fault for answer in parse_completion(text, form, m)]


def applied(text, form="line", view=RAW):
    (answer,) = parse_completion(text, form, 1)
    return apply_answer(view, answer)


def block_after(text, form="line", view=RAW):
    result = applied(text, form, view)
    assert result.fault is None, result
    return split_blocks(result.source)[0].lines


# The line form


def test_line_edits_replace_insert_and_delete():
    completion = (
        "@1\n2=    a = x + 5\n@2\n0+K = 1\n1+    x = x * K\n1+    x = -x\n@3\n3-\n4=    return a"
    )
    one, two, three = (apply_answer(RAW, a) for a in parse_completion(completion, "line", 3))
    assert split_blocks(one.source)[0].lines == (BLOCK[0], "    a = x + 5", *BLOCK[2:])
    assert split_blocks(two.source)[0].lines == (
        "K = 1",
        BLOCK[0],
        "    x = x * K",
        "    x = -x",
        *BLOCK[1:],
    )
    assert split_blocks(three.source)[0].lines == (*BLOCK[:2], "    return a")
    assert one.fingerprint == fingerprint(one.source)


@pytest.mark.parametrize(
    "text",
    [
        "@1\n2=    a = x + 5\n",
        "2=    a = x + 5",
        "@ 1:\n2=    a = x + 5",
        "@1\r\n2=    a = x + 5\r\n",
        "Sure, here is my edit.\n@1\n2=    a = x + 5\nThis makes it better.",
        "```\n@1\n2=    a = x + 5   \n```",
        "@1\n  2 =    a = x + 5",
        "@1\n2=    a = 7\n2=    a = x + 5",
        "@1\n2=    a = (x\n          + 5)",
        "@1\n2-    a = x + 1\n2+    a = x + 5",
    ],
)
def test_line_edits_survive_what_models_write_around_them(text):
    lines = block_after(text)
    assert fingerprint("\n".join(lines)) == fingerprint(
        "\n".join((BLOCK[0], "    a = x + 5", *BLOCK[2:]))
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("@1\n9=    a = 1", "bad_line"),
        ("@1\n5+    a = 1", "bad_line"),
        ("@1\n0=    a = 1", "bad_line"),
        ("@1\n0-", "bad_line"),
        ("@1\n2=    a = x +", "syntax"),
        ("@1\n1-", "syntax"),
        ("@1\n2=    a = x+1  # as before", "no_op"),
        ("@1\n2=    c = x + 1\n3=    b = c * 2\n4=    return c - b", "no_op"),
        ("@1\n2=    a = x + q", "undefined_name"),
        ("@1\n2-\n4=    return a", "undefined_name"),
        ("@1\n2+# EVOLVE-BLOCK-END", "outside_block"),
        ("@1\n2+    s = '" + "x" * MAX_SOURCE_BYTES + "'", "too_large"),
        ("@1\n2+    s = '" + "é" * (MAX_SOURCE_BYTES // 2) + "'", "too_large"),
        ("@1\n2+    return 1\n2+yield 3", "syntax"),
    ],
)
def test_answers_that_give_no_program_say_why(text, fault):
    result = applied(text)
    assert (result.fault, result.source) == (fault, None)


def test_what_the_parent_lacks_is_not_held_against_the_child():
    view = raw_view(SOURCE.replace("x + 1", "x + missing"))
    assert applied("@1\n3=    b = a * 3", view=view).fault is None
    assert applied("@1\n3=    b = a * other", view=view).fault == "undefined_name"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  \n\n", []),
        ("I would rather not.", ["unreadable"]),
        ("@1\n@2\n2-\n@3\nhm", ["empty", None, "unreadable"]),
        ("@1\n2-\n@2\n2-\n@3\n3-", [None, "repeated", None]),
        ("@1\n2-\n@1\n3-\n@9\n4-\n@4\n2-", [None, None, None]),
        ("@1\n2x\n@2\n= 3\n@3\n-2=1", ["unreadable"] * 3),
    ],
)
def test_faults_of_reading_are_counted(text, expected):
    assert faults(text) == expected


def test_spans_cover_each_answer_and_nothing_else():
    text = "Well:\n@1\n2=    a = 1\n@2\n\n@3\r\n2-\n@4\n3-\n"
    answers = parse_completion(text, "line", 3)
    assert [text[slice(*a.span)] for a in answers] == [a.text for a in answers]
    assert "".join(a.text for a in answers) == text[text.index("@1") : text.index("@4")]
    assert [a.index for a in answers] == [0, 1, 2]
    assert parse_completion("2-", "line", 3)[0].span == (0, 2)


def oracle(lines, changes):
    """Line edits by slicing, from the last line to the first."""
    lines = ["", *lines]
    for number in reversed(range(len(lines))):
        own = [c for c in changes if c.line == number]
        new = [lines[number]]
        for change in own:
            if change.sign != "+":
                new = [change.text] if change.sign == "=" else []
        lines[number : number + 1] = new + [c.text for c in own if c.sign == "+"]
    return lines[1:]


def test_line_edits_agree_with_slicing():
    source = "# EVOLVE-BLOCK-START\n" + "a()\n" * 6 + "# EVOLVE-BLOCK-END\n"
    view = raw_view(source)
    rng = np.random.default_rng(0)
    for _ in range(300):
        changes = []
        for _ in range(rng.integers(1, 8)):
            sign = "=+-"[rng.integers(3)]
            line = int(rng.integers(0 if sign == "+" else 1, 7))
            changes.append(Change(line, sign, "" if sign == "-" else f"f({rng.integers(9)})"))
        text = "\n".join(f"{c.line}{c.sign}{c.text}" for c in changes)
        names = {"f": "def f(x): return x", "a": "def a(): return 0"}
        view = raw_view("\n".join(names.values()) + "\n" + source)
        expected = oracle(["a()"] * 6, changes)
        result = applied(text, view=view)
        if result.fault == "no_op":
            assert expected == ["a()"] * 6
        else:
            assert split_blocks(result.source)[0].lines == tuple(expected)


def test_edits_stay_in_the_block_of_their_line():
    source = "# EVOLVE-BLOCK-START\na = 1\nb = 2\n# EVOLVE-BLOCK-END\nc = 3\n" + (
        "# EVOLVE-BLOCK-START\nd = 4\n# EVOLVE-BLOCK-END\n"
    )
    result = applied("0+z = 0\n2+e = 5\n3=d = 6\n3+f = 7", view=raw_view(source))
    assert [b.lines for b in split_blocks(result.source)] == [
        ("z = 0", "a = 1", "b = 2", "e = 5"),
        ("d = 6", "f = 7"),
    ]


def test_the_canonical_view_takes_shown_names():
    view = canonical_view(SOURCE)
    result = applied("@1\n3=    v3 = v2 * np.sqrt(v1)\n3+    v4 = v3", view=view)
    assert split_blocks(result.source)[0].lines == (
        "def f(x):",
        "    a = x + 1",
        "    b = a * np.sqrt(x)",
        "    v4 = b",
        "    return a - b",
    )
    assert applied("@1\n3=    v3 = v2 * v9", view=view).fault == "undefined_name"


# Search and replace


def hunk(search, replace):
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


EDITED = (*BLOCK[:2], "    b = a * 3", BLOCK[3])


@pytest.mark.parametrize(
    "text",
    [
        f"<answer 1>\n{hunk('    b = a * 2', '    b = a * 3')}</answer>",
        hunk("    b = a * 2", "    b = a * 3"),
        hunk("    b = a * 2", "    b = a * 3").removesuffix(">>>>>>> REPLACE\n"),
        "<answer 1>\n" + hunk("    b = a * 2", "    b = a * 3").removesuffix(">>>>>>> REPLACE\n"),
        f"I change one line.\n```\n{hunk('    b = a * 2', '    b = a * 3')}```\nDone.",
        hunk("b = a * 2", "b = a * 3"),
        hunk("        b = a * 2", "        b = a * 3"),
        hunk("    b = a*2   ", "    b = a * 3"),
        hunk("    a = x + 1\n    b = a * 2\n", "    a = x + 1\n    b = a * 3\n"),
        hunk("    b = a * 2", "    b = a") + hunk("    b = a", "    b = a * 3"),
        hunk("    b = a * 2", "    b = a * 3").replace("\n", "\r\n"),
        "<ANSWER 1>\n<<<<<<<\n    b = a * 2\n=======\n    b = a * 3\n>>>>>>>\n</answer>",
    ],
)
def test_search_and_replace_is_found_despite_small_slips(text):
    assert block_after(text, "search_replace") == EDITED


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (hunk("    c = 1", "    c = 2"), "no_match"),
        (hunk("", "    c = 2"), "no_match"),
        (hunk("LIMIT = 3", "LIMIT = 4"), "outside_block"),
        (hunk("# EVOLVE-BLOCK-END", ""), "outside_block"),
        (hunk("    b = a * 2", "    b = a * 2"), "no_op"),
        (hunk("    b = a * 2", "    b = a *"), "syntax"),
        ("<<<<<<< SEARCH\n    b = a * 2\n>>>>>>> REPLACE", "unreadable"),
        ("b = a * 3", "unreadable"),
        ("<answer 1></answer>", "empty"),
    ],
)
def test_hunks_that_give_no_program_say_why(text, fault):
    assert applied(text, "search_replace").fault == fault


def test_tagged_answers_are_told_apart():
    text = "".join(
        f"<answer {i}>\n{hunk('    b = a * 2', f'    b = a * {value}')}{close}\n"
        for i, (value, close) in enumerate([(3, "</answer>"), (4, ""), (3, "</answer>")], start=1)
    )
    answers = parse_completion(text, "search_replace", 3)
    assert [a.fault for a in answers] == [None, None, "repeated"]
    assert "".join(a.text for a in answers) == text
    lines = [split_blocks(apply_answer(RAW, a).source)[0].lines[2] for a in answers[:2]]
    assert lines == ["    b = a * 3", "    b = a * 4"]


# Whole blocks


NEW = "def f(x):\n    return x * 7"


@pytest.mark.parametrize(
    "text",
    [
        f"<answer 1>\n```python\n{NEW}\n```\n</answer>",
        f"<answer 1>\n{NEW}\n</answer>",
        f"Here it is:\n```\n{NEW}\n```\nIt is faster.",
        f"<answer 1>\n```python\n{NEW}",
        f"```python\n# EVOLVE-BLOCK-START\n{NEW}\n# EVOLVE-BLOCK-END\n```",
        f"```\nimport numpy as np\n# EVOLVE-BLOCK-START\n{NEW}\n# EVOLVE-BLOCK-END\nLIMIT = 9```",
    ],
)
def test_a_whole_block_is_found(text):
    result = applied(text, "block")
    assert result.source == SOURCE.replace("\n".join(BLOCK), NEW)


def test_several_blocks_take_their_markers_or_fences():
    source = SOURCE + "# EVOLVE-BLOCK-START\ng = 1\n# EVOLVE-BLOCK-END\n"
    marked = "".join(
        f"# EVOLVE-BLOCK-START\n{text}\n# EVOLVE-BLOCK-END\n" for text in (NEW, "g = 2")
    )
    fenced = "".join(f"```python\n{text}\n```\n" for text in (NEW, "g = 2"))
    for text in (marked, fenced):
        result = applied(text, "block", raw_view(source))
        assert [b.lines for b in split_blocks(result.source)] == [
            tuple(NEW.split("\n")),
            ("g = 2",),
        ]
    assert applied(f"```\n{NEW}\n```", "block", raw_view(source)).fault == "no_match"


# Hostile text


def test_an_unknown_form_is_refused():
    with pytest.raises(EvolveError, match="allowed are line, search_replace, block"):
        parse_completion("", "diff", 3)


HOSTILE = [
    "@1\n" * 60000,
    "@1\n" + "1+x = 1\n" * 30000,
    "<answer 1>" * 20000,
    "<" + " " * 200000 + "answer 1>",
    "<<<<<<< " + " " * 200000 + "x",
    "<<<<<<< SEARCH\n" * 20000,
    hunk("x\n" * 5000 + "y", "x") * 20,
    "@1\n2=" + "(" * 50000,
    "@1\n2=    a = " + "-" * 60000 + "1",
    "@" + "1" * 100000 + "\n" + "9" * 100000 + "=x",
    "@1\n2=    a = '\0\ud800\x1b[2J'",
    "@1\n2=    a = 1\x0b\x0c\x85\u2028b = 2",
    "`" * 300000,
    "```\n" * 60000,
    "@1\n0+" + "v1 " * 20000,
]


@pytest.mark.parametrize("form", ["line", "search_replace", "block"])
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_text_gives_a_result(number, form):
    big = "# EVOLVE-BLOCK-START\n" + "x\n" * 9000 + "# EVOLVE-BLOCK-END\n"
    for view in (RAW, canonical_view(SOURCE), raw_view(big)):
        for answer in parse_completion(HOSTILE[number], form, 3):
            result = apply_answer(view, answer)
            assert (result.source is None) == (result.fault is not None)


def test_text_beyond_the_cap_is_not_read():
    text = "x" * MAX_COMPLETION_CHARS + "\n@1\n2-"
    (answer,) = parse_completion(text, "line", 3)
    assert answer.fault == "unreadable"
    assert answer.span == (0, MAX_COMPLETION_CHARS)


FRAGMENTS = st.sampled_from(
    ["@1", "@2", "\n", "\r\n", "\r", "1=", "2+", "3-", "0+", "99=", " ", "    ", "v1", "v9 = 1",
     "return v1", "<answer 1>", "</answer>", "```", "```python\n", "<<<<<<< SEARCH", "=======",
     ">>>>>>> REPLACE", "a = x + 1", "# EVOLVE-BLOCK-START", "(", "'", '"""', "\\", "é", "\0", "\t"]
)  # fmt: skip


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    parts=st.lists(FRAGMENTS, max_size=30),
    form=st.sampled_from(["line", "search_replace", "block"]),
    canonical=st.booleans(),
)
def test_any_text_is_read_in_order_and_gives_programs_or_faults(parts, form, canonical):
    text = "".join(parts)
    view = canonical_view(SOURCE) if canonical else RAW
    answers = parse_completion(text, form, 3)
    assert len(answers) <= 3
    position = 0
    for index, answer in enumerate(answers):
        start, end = answer.span
        assert answer.index == index
        assert position <= start <= end <= len(text)
        assert text[start:end] == answer.text
        position = end
        result = apply_answer(view, answer)
        if result.fault is None:
            assert fingerprint(result.source) == result.fingerprint
            assert len(split_blocks(result.source)) == 1
            assert result.source.startswith("import numpy as np\n")
            assert result.source.endswith("LIMIT = 3\n")
        else:
            assert result.source is None
