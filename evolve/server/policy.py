"""A model behind a server as a policy: prompts out, completions back in their own order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from evolve.canonical import View, raw_view
from evolve.config import Config
from evolve.edits import EditForm
from evolve.errors import ConfigError, PolicyError
from evolve.policy import Ask, Completion, StoppedError
from evolve.prompts import Shown, instruct
from evolve.records import ResponseRecord
from evolve.seeding import rng_for
from evolve.server.client import Arrival, Client, Notice
from evolve.server.record import Place, load_replay, place_of
from evolve.server.wire import Choice, Reply, digest_of, dump_reply, load_reply, request_body
from evolve.store import Store


@dataclass
class _Group:
    """The rollouts of one prompt: replies by the number of their first rollout."""

    ask: Ask
    wanted: int
    replies: dict[int, Reply] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)

    def choices(self) -> list[Choice]:
        """Return the completions without a gap, from the first on."""
        found: list[Choice] = []
        while len(found) < self.wanted and len(found) in self.replies:
            found += self.replies[len(found)].choices
        return found[: self.wanted]


@dataclass
class ServerPolicy:
    """``openai:MODEL``: a model behind a server that speaks the OpenAI protocol.

    Attributes:
        config: The run's configuration.
        form: The form in which it writes edits.
        client: The server, None if the run is replayed.
        replayed: The answers of the run that is replayed.
    """

    config: Config
    form: EditForm
    client: Client | None
    replayed: dict[Place, Reply]
    version: int = 0
    _store: Store = field(init=False, repr=False)
    _tell: Callable[[str, str], None] = field(init=False, repr=False)
    _stopped: Callable[[], bool] = field(init=False, repr=False)
    _checked: bool = field(default=False, init=False)

    def check(self) -> None:
        """Find out whether the server answers; once in a session.

        Raises:
            PolicyError: If it cannot be used.
        """
        if self.client is not None and not self._checked:
            self.client.check(self.config.policy.name.removeprefix("openai:"))
            self._checked = True

    def connect(
        self, store: Store, tell: Callable[[str, str], None], stopped: Callable[[], bool]
    ) -> None:
        """Give it the run's record, who is told of outages, and what ends its waiting."""
        self._store, self._tell, self._stopped = store, tell, stopped

    def view(self, source: str) -> View:
        """Return the evolve blocks as they are written."""
        return raw_view(source)

    def render(self, shown: Shown) -> tuple[str, tuple[int, ...]]:
        """Return the message; its tokens are the server's business."""
        return instruct(shown, self.form), ()

    def sample(
        self, asks: Sequence[Ask], rollouts: int, answers: int
    ) -> Iterator[list[Completion]]:
        """Yield the completions of each ask, in order, whenever their answers arrived.

        Every answer is on record when it is seen; what is on record is not asked for.

        Raises:
            PolicyError: If the server refuses, or was away for longer than the run's patience.
            StoppedError: If the run is to end meanwhile.
        """
        del answers  # the prompt asks for them
        if not asks:
            return
        known = {
            place_of(record): load_reply(record.body)
            for record in self._store.responses(asks[0].key[1])
        }
        groups = [_Group(ask, rollouts) for ask in asks]
        try:
            for number, group in enumerate(groups):
                self._go_on(number, group, known)
            for group in groups:
                while len(found := group.choices()) < rollouts:
                    self._wait(groups, known)
                yield [_completion(choice) for choice in found]
        finally:
            if self.client is not None:
                self.client.drop()

    def _go_on(self, number: int, group: _Group, known: dict[Place, Reply]) -> None:
        """Take what is known of a group, and ask for what is not."""
        _, round_, slot = group.ask.key
        while (first := len(group.choices())) < group.wanted:
            body = request_body(self.config, group.ask.text, group.ask.key, first)
            place = (round_, slot, first, digest_of(body))
            reply = known.get(place)
            if reply is None and self.client is None:
                reply = self._replay(place)
                self._keep(place, reply)
            if reply is None:
                break
            group.replies[first] = reply
        client = self.client
        if client is None or first >= group.wanted:
            return
        # Where a request has one choice, those that are missing go out together.
        firsts = [first] if client.takes_n else range(first, group.wanted)
        for start in firsts:
            if start in group.asked or start in group.replies:
                continue
            self.check()
            group.asked.add(start)
            body = request_body(self.config, group.ask.text, group.ask.key, start)
            place = (round_, slot, start, digest_of(body))
            if place in known:
                group.replies[start] = known[place]
                continue
            rng = rng_for(self.config.seed, "back-off", round_, slot, start)
            count = group.wanted - start if client.takes_n else 1
            client.submit((number, start), body, count, rng)

    def _wait(self, groups: list[_Group], known: dict[Place, Reply]) -> None:
        assert self.client is not None
        if self._stopped():
            self._drain(groups)
            raise StoppedError
        item = self.client.next(0.2)
        if isinstance(item, Notice):
            self._notice(groups[0], item)
        elif item is not None:
            number = self._arrived(groups, item)
            self._go_on(number, groups[number], known)

    def _drain(self, groups: list[_Group]) -> None:
        """Put on record what is still on its way, for it is paid for."""
        assert self.client is not None
        self.client.stop()
        while self.client.busy:
            item = self.client.next(0.2)
            if isinstance(item, Arrival) and isinstance(item.result, Reply):
                self._arrived(groups, item)

    def _arrived(self, groups: list[_Group], item: Arrival) -> int:
        number, first = item.tag
        if isinstance(item.result, PolicyError):
            raise item.result
        group = groups[number]
        body = request_body(self.config, group.ask.text, group.ask.key, first)
        self._keep((*group.ask.key[1:], first, digest_of(body)), item.result)
        group.replies[first] = item.result
        return number

    def _keep(self, place: Place, reply: Reply) -> None:
        server, budget = self.config.server, self.config.budget
        counts = (reply.prompt_tokens, reply.completion_tokens)
        if None in counts and (budget.tokens is not None or budget.cost is not None):
            raise PolicyError(
                f"{server.base_url}: it does not say how many tokens it used, so budget.tokens and "
                "budget.cost cannot be kept"
            )
        cost = (counts[0] or 0) * server.prompt_price + (counts[1] or 0) * server.completion_price
        with self._store.transaction():
            self._store.add_response(ResponseRecord(*place, dump_reply(reply), *counts, cost / 1e6))

    def _replay(self, place: Place) -> Reply:
        reply = self.replayed.get(place)
        if reply is None:
            raise PolicyError(
                f"{self.config.server.replay}: holds no answer for round {place[0]}, prompt "
                f"{place[1]}, rollout {place[2]} of this run; a replay needs the task, the "
                "configuration, the seed and the version of the run that was recorded"
            )
        return reply

    def _notice(self, group: _Group, notice: Notice) -> None:
        with self._store.transaction():
            self._store.add_event(group.ask.key[1], notice.kind, notice.text)
        self._tell(notice.kind, notice.text)


def open_server(config: Config) -> ServerPolicy:
    """Return the policy of a configuration whose name begins with ``openai:``.

    Raises:
        ConfigError: If its address, key or replay cannot be used.
    """
    server = config.server
    if not config.policy.name.removeprefix("openai:"):
        raise ConfigError(f"policy {config.policy.name!r}: a model's name is needed, openai:MODEL")
    if config.budget.cost is not None and not (server.prompt_price or server.completion_price):
        raise ConfigError(
            "budget.cost: set server.prompt_price and server.completion_price, per million tokens"
        )
    if server.replay:
        return ServerPolicy(config, server.form, None, load_replay(Path(server.replay)))
    if not server.base_url:
        raise ConfigError(
            f"policy {config.policy.name!r}: --base-url URL is needed, for example "
            "http://localhost:8000/v1"
        )
    _check_url(server.base_url)
    return ServerPolicy(config, server.form, Client(server, _key(server.key_file)), {})


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"server.base_url = {url!r}: http:// or https:// and a host are needed")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        # It is written into config.toml, where no secret belongs.
        raise ConfigError(
            "server.base_url: holds a user, a password or a query; the key belongs into "
            "OPENAI_API_KEY or the file server.key_file"
        )


def _key(file: str) -> str:
    """Return the key of the environment or of a file, "" if there is none.

    Raises:
        ConfigError: If it is none that can be sent.
    """
    origin, key = "OPENAI_API_KEY", os.environ.get("OPENAI_API_KEY", "")
    if file:
        origin = file
        try:
            key = Path(file).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"server.key_file = {file!r}: {type(error).__name__}") from None
    key = key.strip()
    if not all("!" <= char <= "~" for char in key):
        raise ConfigError(f"{origin}: holds no key (blanks or characters that cannot be sent)")
    return key


def _completion(choice: Choice) -> Completion:
    return Completion(choice.text, logprobs=choice.logprobs, offsets=choice.ends)
