"""Training a policy on a task: sample, judge, advantages, update; evaluate; leave a folder.

All draws are addressed by seed and step. A run that was killed goes on from its checkpoint and ends
as if nothing had happened, bit by bit on the same machine. What it leaves: :mod:`vpo.runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from vpo.advantages import Advantages, compute_advantages
from vpo.checkpoint import load_checkpoint, save_checkpoint
from vpo.diagnostics import judge, measure
from vpo.evaluation import pairwise_l1, quality_curves, set_curve
from vpo.model import attach_lora, base_of
from vpo.rollouts import Rollout
from vpo.runs import TrainingConfig, append_row, keep_until, read_rows
from vpo.sampling import Sample, generate
from vpo.sets import Floats
from vpo.settings import Importance, TrainerConfig
from vpo.spans import token_ends, token_span
from vpo.tally import UpdateStats
from vpo.task import Prompt, Task, TaskError
from vpo.tokens import token_advantages
from vpo.trainer import Trainer
from vpo.utility import set_utility


class Training:
    """One run: its parts, and where it stands."""

    def __init__(
        self, config: TrainingConfig, task: Task, model: Any, tokenizer: Any, out: Path
    ) -> None:
        """Set up a run; ``model`` is the initial policy, which is taken over.

        Args:
            config: The run.
            task: What it trains on.
            model: A causal language model of transformers.
            tokenizer: Its tokenizer, with an end token.
            out: Folder of the run.

        Raises:
            ValueError: If the model has no end token or its context is too short for a prompt.
        """
        self.config = config
        self.task = task
        self.tokenizer = tokenizer
        self.out = out
        self.step = 0
        self.tokens = 0
        self.controllers = config.controllers()
        if tokenizer.eos_token_id is None:
            raise ValueError(f"policy {config.policy}: its tokenizer has no end token")
        if config.lora_rank:
            model = attach_lora(model, rank=config.lora_rank, seed=config.seed)
        self.trainer = Trainer(model, _updates(config, model.device.type), seed=config.seed)
        self._room = getattr(model.config, "max_position_embeddings", 1 << 30)
        for prompt in (*task.train, *task.test):
            self._ids(prompt)

    def restore(self) -> None:
        """Go on from the checkpoint in the run's folder, if there is one.

        Raises:
            ValueError: If it does not fit.
        """
        file = self.out / "checkpoint.pt"
        if not file.is_file():
            return
        state = load_checkpoint(file)
        self.trainer.load_state_dict(state["trainer"])
        self.step, self.tokens = state["step"], state["tokens"]
        self.controllers = self.controllers.restored(state["controllers"])

    def run(self, tell: Callable[[str], None]) -> None:
        """Train until the last step; ``tell`` is given a line of text now and then."""
        config = self.config
        keep_until(self.out / "steps.jsonl", self.step)
        keep_until(self.out / "evaluations.jsonl", self.step)
        past = read_rows(self.out / "steps.jsonl")
        if not read_rows(self.out / "evaluations.jsonl"):
            self._evaluate(tell)
        while self.step < config.steps:
            row = self._train(past)
            past.append(row)
            append_row(self.out / "steps.jsonl", row)
            tell(_line(row, config.steps))
            last = self.step == config.steps
            if last or self.step % config.evaluate_every == 0:
                self._evaluate(tell)
            if last or self.step % config.save_every == 0:
                # Whole models are large: of these only the last one.
                if last or config.lora_rank:
                    self.trainer.save(self.out / "policy")
                self._save()

    def _save(self) -> None:
        state = {
            "trainer": self.trainer.state_dict(),
            "step": self.step,
            "tokens": self.tokens,
            "controllers": asdict(self.controllers),
        }
        save_checkpoint(state, self.out / "checkpoint.pt")

    def _train(self, past: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Take a step and return its row."""
        config = self.config
        self.step += 1
        rng = _stream(config.seed, "prompts", self.step)
        every = len(self.task.train)
        order = np.concatenate([rng.permutation(every) for _ in range(-(-config.prompts // every))])
        prompts = [self.task.train[index] for index in order[: config.prompts]]
        seeds = [self._seed("sample", self.step, slot) for slot in range(len(prompts))]
        steering = self._steering()
        self.trainer.steer(entropy_coef=steering["entropy"], temperature=steering["temperature"])
        rollouts, texts, finished = self._rollouts(
            prompts, config.group_size, seeds, steering["temperature"]
        )
        widths = {rollout.rewards.shape[1] for rollout in rollouts if len(rollout.rewards)}
        if config.floors and widths - {len(config.floors)}:
            k = ", ".join(map(str, sorted(widths)))
            raise TaskError(f"floors: {len(config.floors)} given, the task has {k} rewards")
        advantages = self._advantages(rollouts)
        table = token_advantages(
            advantages,
            [rollout.answer_spans for rollout in rollouts],
            [len(rollout.completion_ids) for rollout in rollouts],
        )
        stats = self.trainer.update(rollouts, table)
        values = self._measured(rollouts, texts, finished, advantages, stats)
        self.tokens += sum(len(rollout.completion_ids) for rollout in rollouts)
        rows = [rollout.rewards for rollout in rollouts if len(rollout.rewards)]
        worth = values.get("set_utility", 0.0)
        self.controllers = self.controllers.update(
            np.concatenate(rows).mean(axis=0) if rows and self.controllers.floors else None,
            values.get("specialisation", 0.0) * worth,
            worth,
            stats.entropy,
        )
        return {
            "step": self.step,
            "tokens": self.tokens,
            "version": stats.version,
            "accepted": stats.accepted,
            "reason": stats.reason,
            "loss": stats.loss if isfinite(stats.loss) else None,
            "steering": steering,
            "measures": values,
            "alarms": list(judge(values, [row["measures"] for row in past]).alarms),
            "seconds": round(stats.seconds, 3),
        }

    def _advantages(self, rollouts: Sequence[Rollout]) -> Advantages:
        config = self.config
        options: dict[str, Any] = {}
        if config.method in ("vpo", "vpo_iid"):
            if any(rollout.reference is not None for rollout in rollouts):
                options["references"] = [rollout.reference for rollout in rollouts]
            if config.method == "vpo":
                band = self.controllers.band
                options["lambda_d"] = config.lambda_d if band is None else band.value
        if self.controllers.floors is not None:
            options["multipliers"] = self.controllers.floors.multipliers
        return compute_advantages(
            [rollout.rewards for rollout in rollouts],
            [rollout.group for rollout in rollouts],
            estimator=config.method,
            credit=config.credit,
            alpha=config.alpha,
            seed=self._seed("quadrature", self.step),
            **options,
        )

    def _steering(self) -> dict[str, Any]:
        """Return what the controllers say for the present step."""
        config, now = self.config, self.controllers
        cooling = now.temperature
        return {
            "temperature": config.temperature if cooling is None else cooling.at(self.step - 1),
            "entropy": config.entropy if now.entropy is None else now.entropy.coefficient,
            "lambda_d": config.lambda_d if now.band is None else now.band.value,
            "multipliers": [] if now.floors is None else list(now.floors.multipliers),
        }

    def _measured(
        self,
        rollouts: Sequence[Rollout],
        texts: Sequence[Sequence[str]],
        finished: Sequence[bool],
        advantages: Advantages,
        stats: UpdateStats,
    ) -> dict[str, float]:
        return measure(
            [rollout.rewards for rollout in rollouts],
            [rollout.group for rollout in rollouts],
            advantages=advantages,
            alpha=self.config.alpha,
            asked=self.config.answers,
            texts=texts,
            finished=finished,
            logprobs=[rollout.behaviour_logprobs for rollout in rollouts],
            spans=[rollout.answer_spans for rollout in rollouts],
            floors=self.config.floors or None,
            stats=stats,
        )

    def _rollouts(
        self, prompts: Sequence[Prompt], n: int, seeds: Sequence[int], temperature: float
    ) -> tuple[list[Rollout], list[list[str]], list[bool]]:
        """Return n judged rollouts of each prompt, the texts of their answers, and who ended."""
        ids = [self._ids(prompt) for prompt in prompts]
        groups = generate(
            base_of(self.trainer.model),
            ids,
            n,
            max_new_tokens=self.config.max_new_tokens,
            eos_id=self.tokenizer.eos_token_id,
            seeds=seeds,
            temperature=temperature,
        )
        rollouts: list[Rollout] = []
        texts: list[list[str]] = []
        finished: list[bool] = []
        for slot, (prompt, group) in enumerate(zip(prompts, groups, strict=True)):
            completions = [self._decode(sample.ids) for sample in group]
            judged = self.task.judge(prompt, completions, self.config.answers)
            for sample, text, verdict in zip(group, completions, judged, strict=True):
                spans = self._token_spans(sample, text, verdict.spans)
                rollouts.append(
                    Rollout(
                        prompt_ids=ids[slot],
                        completion_ids=sample.ids,
                        behaviour_logprobs=sample.logprobs,
                        rewards=verdict.rewards,
                        answer_spans=spans,
                        group=slot,
                        version=self.trainer.version,
                        reference=prompt.reference,
                    )
                )
                texts.append([text[start:stop] for start, stop in verdict.spans])
                finished.append(sample.finished)
        return rollouts, texts, finished

    def _evaluate(self, tell: Callable[[str], None]) -> None:
        """Append a row: what so many answers or rollouts on held-out prompts are worth."""
        config = self.config
        prompts = self.task.test[: config.evaluation_prompts]
        n = config.evaluation_rollouts
        # The same draws at every evaluation: differences are those of the policy.
        seeds = [self._seed("evaluation", slot) for slot in range(len(prompts))]
        rollouts, _, _ = self._rollouts(prompts, n, seeds, config.temperature)
        sizes = [size for size in (1, 2, 4, 8, 16, 32, 64, 128) if size <= n]
        curves, sets, apart = [], [], []
        for slot in range(len(prompts)):
            group = rollouts[slot * n : slot * n + n]
            rewards = [rollout.rewards for rollout in group]
            lengths = [len(rollout.completion_ids) for rollout in group]
            curves.append(quality_curves(rewards, sizes, tokens=lengths))
            pool = [matrix for matrix in rewards if len(matrix)]
            if pool:
                rows = np.concatenate(pool)
                within = [size for size in sizes if size <= len(rows)]
                value = set_curve(rows, within, alpha=config.alpha).value
                sets.append(np.pad(value, (0, len(sizes) - len(within)), constant_values=np.nan))
                apart.append(pairwise_l1(rows))
        utility = set_utility([rollout.rewards for rollout in rollouts], alpha=config.alpha)
        row = {
            "step": self.step,
            "tokens": self.tokens,
            "sizes": sizes,
            "best_by_rollout": _means([curve.by_rollout for curve in curves]),
            "best_by_answer": _means([curve.by_answer for curve in curves]),
            "tokens_by_rollout": _means([curve.tokens for curve in curves]),
            "set_curve": _means(sets),
            "mean_reward": float(utility.mean.mean()),
            "set_utility": float(utility.expected_max.mean()),
            "set_utility_error": _error(utility.expected_max.reshape(len(prompts), n)),
            "specialisation": float(utility.specialisation.mean()),
            "pairwise_l1": float(np.mean(apart)) if apart else 0.0,
            "answers": float(np.mean([len(rollout.rewards) for rollout in rollouts])),
        }
        append_row(self.out / "evaluations.jsonl", row)
        tell(describe(row))

    def _ids(self, prompt: Prompt) -> list[int]:
        text: str = prompt.text
        if getattr(self.tokenizer, "chat_template", None):
            text = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
            )
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        if not ids or len(ids) + self.config.max_new_tokens > self._room:
            raise ValueError(
                f"prompt {text[:40]!r}: {len(ids)} tokens and max_new_tokens = "
                f"{self.config.max_new_tokens}; 1 to {self._room} fit the model's context"
            )
        return ids

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _token_spans(
        self, sample: Sample, text: str, spans: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        ends = token_ends(sample.ids, text, self._decode)
        found, at = [], 0
        for start, stop in spans:
            # A token across the border of two answers belongs to the first.
            first, last = token_span(ends, start, stop)
            found.append((max(first, at), max(last, first, at)))
            at = found[-1][1]
        return found

    def _seed(self, *address: int | str) -> int:
        return int(_stream(self.config.seed, *address).integers(1 << 32))


def _updates(config: TrainingConfig, device: str) -> TrainerConfig:
    return TrainerConfig(
        learning_rate=config.learning_rate,
        kl_coef=config.kl,
        entropy_coef=config.entropy,
        temperature=config.temperature,
        token_budget=config.token_budget,
        # In bfloat16 the sampler's log-probabilities are not those of the trainer.
        bf16=device == "cuda",
        importance=Importance() if device == "cuda" else None,
    )


def describe(row: dict[str, Any]) -> str:
    """Return an evaluation in one line."""
    size, best = row["sizes"][-1], row["best_by_rollout"]
    return (
        f"evaluation at step {row['step']}: best@1 {best[0]:.3f}, best@{size} {best[-1]:.3f}, "
        f"R {row['set_utility']:.3f} +- {row['set_utility_error']:.3f}, "
        f"specialisation {row['specialisation']:.3f}, "
        f"diversity (L1) {row['pairwise_l1']:.3f}"
    )


def _stream(seed: int, *address: int | str) -> np.random.Generator:
    key = [word if isinstance(word, int) else crc32(word.encode()) for word in address]
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def _error(values: Floats) -> float:
    """Return the standard error of the mean of (prompts, rollouts) values.

    Over prompts, since rollouts of one prompt are alike; over rollouts where there is one prompt.
    """
    units = values.mean(axis=1) if len(values) > 1 else values[0]
    return float(units.std(ddof=1) / np.sqrt(len(units))) if len(units) > 1 else 0.0


def _means(rows: Sequence[Any]) -> list[float | None]:
    if not rows:
        return []
    table = np.array(rows)
    known = np.isfinite(table)
    totals = np.where(known, table, 0.0).sum(axis=0)
    counts = known.sum(axis=0)
    return [float(t / c) if c else None for t, c in zip(totals, counts, strict=True)]


def _line(row: dict[str, Any], steps: int) -> str:
    values = row["measures"]
    shown = {
        "reward": "mean_reward",
        "R": "set_utility",
        "D/R": "specialisation",
        "entropy": "entropy",
        "KL": "kl",
    }
    numbers = " ".join(f"{k} {values[v]:.3f}" for k, v in shown.items() if v in values)
    fate = "" if row["accepted"] else f" (no update: {row['reason']})"
    alarms = f"  look at: {', '.join(row['alarms'])}" if row["alarms"] else ""
    return f"step {row['step']}/{steps}: {numbers}{fate}{alarms}"
