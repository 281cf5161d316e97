"""What goes over the line: the body of a request, and reading what a server sent back.

Nothing here opens a connection. Whatever a server sends is hostile until it has been read here.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from evolve.config import Config
from evolve.sandbox.text import clean
from evolve.seeding import seed_for


class BadReplyError(Exception):
    """A body that is no answer; asking again may help."""


@dataclass(frozen=True)
class Choice:
    """One completion.

    Attributes:
        text: What was written.
        finish: Why it ended, in the server's word: ``stop``, ``length``, ...
        tokens: Text of each token, empty where the server gave none.
        logprobs: Log-probability of each token.
        ends: Character of ``text`` at which each token ends; empty if the tokens do not spell it.
    """

    text: str
    finish: str
    tokens: tuple[str, ...] = ()
    logprobs: tuple[float, ...] = ()
    ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reply:
    """The answer to one request; token counts are None where the server gave none."""

    choices: tuple[Choice, ...]
    prompt_tokens: int | None
    completion_tokens: int | None


def request_body(
    config: Config, prompt: str, key: tuple[int, int, int], first: int
) -> dict[str, Any]:
    """Return the body of a request, but for ``n``.

    Args:
        config: The run's configuration.
        prompt: What is said to the model.
        key: Where the prompt stands in the run: (seed, round, slot).
        first: Number of the rollout that the first choice becomes.
    """
    server = config.server
    body: dict[str, Any] = {
        "model": config.policy.name.removeprefix("openai:"),
        "messages": [{"role": "user", "content": prompt}],
        "temperature": config.policy.temperature,
        server.length_field: server.max_tokens,
    }
    if server.send_seed:
        body["seed"] = seed_for(key[0], "server", *key[1:], first) % 2**31
    if server.logprobs:
        body["logprobs"] = True
    return body


def digest_of(body: dict[str, Any]) -> str:
    """Return the name of a request: equal requests have equal ones, whatever their ``n``."""
    text = json.dumps(body, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def read_reply(body: bytes, secret: str) -> Reply:
    """Return what a server answered.

    Args:
        body: The body of a response of status 200.
        secret: The key, which is taken out wherever the server repeats it.

    Raises:
        BadReplyError: If it is not a chat completion with one choice at least.
    """
    tree = _json(body)
    if not isinstance(tree, dict):
        raise BadReplyError("the answer is JSON, but no object")
    if tree.get("error") and "choices" not in tree:
        raise BadReplyError(f"the answer is an error: {error_text(body, secret)}")
    choices = tree.get("choices")
    if not isinstance(choices, list) or not choices:
        raise BadReplyError("the answer has no choices")
    found = [_choice(choice, secret) for choice in sorted(choices, key=_index)]
    usage = tree.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(tuple(found), _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))


def dump_reply(reply: Reply) -> str:
    """Return a reply as JSON that :func:`load_reply` reads back to an equal object."""
    return json.dumps(asdict(reply), sort_keys=True)


def load_reply(text: str) -> Reply:
    """Return the reply that :func:`dump_reply` wrote.

    Raises:
        BadReplyError: If it is none.
    """
    try:
        tree = json.loads(text)
        choices = tuple(
            Choice(
                str(c["text"]),
                str(c["finish"]),
                tuple(c["tokens"]),
                tuple(c["logprobs"]),
                tuple(c["ends"]),
            )
            for c in tree["choices"]
        )
        return Reply(choices, tree["prompt_tokens"], tree["completion_tokens"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadReplyError(f"no recorded answer: {error!r}") from None


def error_text(body: bytes, secret: str) -> str:
    """Return what a server says of a failure, in one harmless line; the key is taken out."""
    text = body[:20_000].decode("utf-8", "replace")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        tree = None
    if isinstance(tree, dict):
        inner = tree.get("error", tree)
        message = inner.get("message", inner) if isinstance(inner, dict) else inner
        text = message if isinstance(message, str) else json.dumps(message)
    elif "<html" in text.lower() or "<!doctype" in text.lower():
        text = "a page of HTML"
    return clean(redact(text, secret), 300)


def redact(text: str, secret: str) -> str:
    """Return ``text`` without the key."""
    # A placeholder such as "none" is no secret and may be a word of the text.
    return text.replace(secret, "[key]") if len(secret) >= 8 else text


def _json(body: bytes) -> Any:
    def refuse(name: str) -> None:
        raise BadReplyError(f"the answer holds {name}, which is no JSON")

    try:
        return json.loads(body.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError):
        what = "a page of HTML" if b"<html" in body[:2000].lower() else "no JSON"
        raise BadReplyError(f"the answer is {what} ({len(body)} bytes)") from None


def _index(choice: Any) -> int:
    index = choice.get("index") if isinstance(choice, dict) else None
    return index if isinstance(index, int) else 0


def _choice(choice: Any, secret: str) -> Choice:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise BadReplyError("a choice has no message")
    content = message.get("content")
    if content is None:
        content = ""  # a refusal, or a model that thought until its tokens were used up
    if not isinstance(content, str):
        raise BadReplyError("a message has no text")
    text, finish = _plain(content), choice.get("finish_reason")
    finish = clean(finish, 20) if isinstance(finish, str) else ""
    shown = redact(text, secret)
    tokens, logprobs = _logprobs(choice.get("logprobs"))
    if shown != text:
        return Choice(shown, finish)
    return Choice(text, finish, tokens, logprobs, _ends(text, tokens))


def _logprobs(given: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    content = given.get("content") if isinstance(given, dict) else None
    if not isinstance(content, list):
        return (), ()
    tokens, logprobs = [], []
    for entry in content:
        token = entry.get("token") if isinstance(entry, dict) else None
        value = entry.get("logprob") if isinstance(entry, dict) else None
        if (
            not isinstance(token, str)
            or isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
        ):
            raise BadReplyError("a log-probability is no number")
        tokens.append(_plain(token))
        logprobs.append(float(value))
    return tuple(tokens), tuple(logprobs)


def _ends(text: str, tokens: tuple[str, ...]) -> tuple[int, ...]:
    if not tokens:
        return ()
    ends, end = [], 0
    for token in tokens:
        end += len(token)
        ends.append(min(end, len(text)))
    # The end token, whose text is no part of the completion, may follow.
    return tuple(ends) if text in ("".join(tokens), "".join(tokens[:-1])) else ()


def _plain(text: str) -> str:
    # JSON can hold half a surrogate pair, which no file or database takes.
    return text.encode("utf-8", "replace").decode()


def _count(usage: dict[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return value if isinstance(value, int) and 0 <= value < 2**40 else None
