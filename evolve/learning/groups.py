"""The training groups of a run as rows that other trainers read.

What is in a row is what the run's own updates are made of, see
:func:`evolve.learning.batch.training_batch`: prompts, completions, token ids, the log-probabilities
of the policy that sampled them, and the reward matrix of the answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from evolve.config import Config
from evolve.learning.batch import recorded_batch
from evolve.store import Store


def trl_rows(store: Store, config: Config) -> Iterator[dict[str, Any]]:
    """Yield a row for every rollout, those of one prompt together.

    ``prompt_ids``, ``completion_ids`` and ``logprobs`` are what a ``rollout_func`` of TRL's
    ``GRPOTrainer`` returns; it hands any other column on to the reward function. So
    :func:`vpo.integrations.trl.set_utility_reward` with ``lambda rewards, **_: rewards`` is worth
    R(S) of the stored answers.

    - ``rewards``: (m, k), a row of zeros for an answer that gave no valid new program;
    - ``reference``: (p, k), rewards of the programs that the answers had to beat;
    - ``answer_spans``: half-open token span of each answer in the completion;
    - ``group`` and ``rollout``: numbers of the prompt and the rollout in the run;
    - ``version``: policy version that sampled it, ``round``: when.
    """
    # One round at a time: the tokens of all rounds need not fit into memory.
    for closed in store.rounds():
        round_ = closed["round"]
        records = recorded_batch(
            store, round_, round_, config.search.answers, config.policy.name != "pocket"
        )
        for prompt, record, rollout in records:
            reference = rollout.reference
            yield {
                "prompt": prompt.text,
                "completion": record.completion,
                "prompt_ids": list(prompt.tokens),
                "completion_ids": list(record.tokens),
                "logprobs": list(record.logprobs),
                "rewards": rollout.rewards.tolist(),
                "reference": [] if reference is None else reference.tolist(),
                "answer_spans": [list(span) for span in rollout.answer_spans],
                "group": prompt.id,
                "rollout": record.id,
                "version": record.version,
                "round": round_,
            }


def verl_rows(store: Store, config: Config) -> Iterator[dict[str, Any]]:
    """Yield a row for every prompt, in the columns of veRL's ``RLHFDataset``.

    ``prompt`` is one chat message with the text that the policy saw, its chat template included;
    veRL needs a template that adds nothing, ``{{ messages[0]['content'] }}``, to make
    ``raw_prompt_ids`` of it again. The stored rollouts of the group stand under the names that
    veRL's batches use, ``responses`` (G token lists) and ``rollout_log_probs``, and beside them
    ``completions`` and ``reward_matrices`` (G, m, k).
    """
    for uid, rows in groupby(trl_rows(store, config), key=lambda row: row["group"]):
        group = list(rows)
        first = group[0]
        yield {
            "data_source": f"evolve/{config.task}",
            "prompt": [{"role": "user", "content": first["prompt"]}],
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {
                "index": uid,
                "split": "train",
                "round": first["round"],
                "reference": first["reference"],
            },
            "uid": str(uid),
            "raw_prompt_ids": first["prompt_ids"],
            "completions": [row["completion"] for row in group],
            "responses": [row["completion_ids"] for row in group],
            "rollout_log_probs": [row["logprobs"] for row in group],
            "reward_matrices": [row["rewards"] for row in group],
        }
