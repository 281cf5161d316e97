"""The answers of a server on record: what was asked is not asked again, and a run can be replayed.

The record is the table ``responses`` of the run; ``evolve export`` writes it as a file that
``--replay`` takes, as it takes a run folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evolve.config import Config
from evolve.errors import ConfigError
from evolve.records import JUDGE_ERROR, Candidate, ResponseRecord
from evolve.server.wire import BadReplyError, Choice, Reply, load_reply
from evolve.store import Store

#: Round, slot, first rollout, name of the request.
Place = tuple[int, int, int, str]


def place_of(record: ResponseRecord) -> Place:
    """Return where an answer belongs."""
    return record.round, record.slot, record.first, record.request


def load_replay(path: Path) -> dict[Place, Reply]:
    """Return the answers of a run folder, or of the ``responses.jsonl`` that a run exported.

    Raises:
        ConfigError: If it holds none.
        StoreError: If it is a folder without a run.
    """
    if path.is_dir():
        with Store(path) as store:
            records = store.responses()
    else:
        records = list(_read_file(path))
    if not records:
        raise ConfigError(f"{path}: holds no answers of a server")
    try:
        return {place_of(record): load_reply(record.body) for record in records}
    except BadReplyError as error:
        raise ConfigError(f"{path}: {error}") from None


def response_rows(store: Store) -> Iterator[Mapping[str, Any]]:
    """Yield a row for every answer of a server, in the order of rounds and prompts."""
    for record in store.responses():
        yield {
            "round": record.round,
            "slot": record.slot,
            "first": record.first,
            "request": record.request,
            "reply": json.loads(record.body),
            "cost": record.cost,
        }


def group_rows(store: Store, config: Config) -> Iterator[Mapping[str, Any]]:
    """Yield a row for every rollout of the closed rounds, those of one prompt together.

    Its ``prompt`` is one chat message; the server's chat template and its token ids are not known,
    so that a trainer has to make ``prompt_ids`` and ``completion_ids`` with the model's own
    tokenizer, and check that it splits the completion into ``tokens``.

    - ``tokens``, ``logprobs``: text and log-probability of each token, empty if not given;
    - ``rewards``: (m, k), a row of zeros for an answer that gave no valid new program;
    - ``reference``: (p, k), rewards of the programs that were shown;
    - ``answer_spans``: half-open token span of each answer, null where there are no tokens.

    An answer that repeats a program of the same round shares its rewards; a rollout with an answer
    on which sandbox or judge failed is left out.
    """
    replies: dict[tuple[int, int], dict[int, Reply]] = {}
    for response in store.responses():
        place = replies.setdefault((response.round, response.slot), {})
        place[response.first] = load_reply(response.body)
    for closed in store.rounds():
        round_ = closed["round"]
        prompts = {prompt.id: prompt for prompt in store.prompts(round_, round_)}
        verdicts = store.evaluations_of_rounds(round_, round_)
        answers: dict[int, list[Candidate]] = {}
        for candidate in store.candidates_of_rounds(round_, round_):
            answers.setdefault(candidate.rollout or 0, []).append(candidate)
        for rollout in store.rollouts(round_, round_):
            prompt = prompts[rollout.prompt]
            shown = [store.evaluation(id_) for id_ in (prompt.parent, *prompt.inspirations)]
            reference = [list(verdict.rewards or ()) for verdict in shown if verdict is not None]
            rewards = [[0.0] * len(reference[0]) for _ in range(config.search.answers)]
            spans: list[list[int] | None] = [None] * config.search.answers
            ours = False
            for candidate in answers.get(rollout.id, []):
                verdict = verdicts.get(candidate.id) or verdicts.get(candidate.twin or 0)
                if verdict is not None and verdict.rewards is not None:
                    rewards[candidate.answer] = list(verdict.rewards)
                ours |= verdict is not None and verdict.status in ("sandbox_error", JUDGE_ERROR)
                if rollout.logprobs and candidate.tokens[1]:
                    spans[candidate.answer] = list(candidate.tokens)
            if ours:
                continue
            choice = _choice_of(replies.get((round_, prompt.slot), {}), rollout.repeat)
            yield {
                "prompt": [{"role": "user", "content": prompt.text}],
                "completion": rollout.completion,
                "token_ids": None,
                "tokens": list(choice.tokens) if choice else [],
                "logprobs": list(rollout.logprobs),
                "rewards": rewards,
                "reference": reference,
                "answer_spans": spans,
                "group": prompt.id,
                "rollout": rollout.id,
                "model": config.policy.name.removeprefix("openai:"),
                "round": round_,
            }


def _choice_of(replies: Mapping[int, Reply], repeat: int) -> Choice | None:
    """Return the completion that became a rollout: replies follow each other without a gap."""
    first = 0
    while first in replies:
        choices = replies[first].choices
        if repeat < first + len(choices):
            return choices[repeat - first]
        first += len(choices)
    return None


def _read_file(path: Path) -> Iterator[ResponseRecord]:
    number = 0
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            number += 1
            row = json.loads(line)
            yield ResponseRecord(
                int(row["round"]),
                int(row["slot"]),
                int(row["first"]),
                str(row["request"]),
                json.dumps(row["reply"]),
                None,
                None,
                float(row["cost"]),
            )
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path}, line {number}: no recorded answer") from None
