"""The bridge between the search and the learning library, and the only module that imports it.

One way: a model of ``vpo`` becomes a policy that samples edits. The other: stored rollouts become
a training batch, an update becomes a policy version. The update reads the store and nothing else,
so that a resumed run trains on what the killed one would have.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.utils.logging import disable_progress_bar

from evolve import pocket
from evolve.canonical import View, canonical_view, raw_view
from evolve.config import Config, Training
from evolve.edits import EditForm
from evolve.errors import ConfigError, PolicyError
from evolve.policy import Ask, Completion
from evolve.prompts import Shown, instruct
from evolve.records import Candidate, VersionRecord
from evolve.seeding import rng_for, seed_for
from evolve.smollm2 import smollm2_folder
from evolve.store import Store
from vpo.advantages import ESTIMATORS, compute_advantages
from vpo.checkpoint import load_checkpoint, save_checkpoint
from vpo.model import attach_lora, load_policy, load_version, save_version
from vpo.probe import WeightsMismatchError, check_weights, model_scorer
from vpo.rollouts import Rollout
from vpo.sampling import generate
from vpo.spans import token_ends
from vpo.tokens import token_advantages
from vpo.trainer import Trainer, TrainerConfig

#: A version is rolled back when its share of useful answers lies this many standard errors below
#: that of the version before, and below this part of it.
ROLLBACK_ERRORS = 3.0
ROLLBACK_SHARE = 0.8

#: Sequences on which engine and trainer are compared after every update.
PROBE_SEQUENCES = 4

Render = Callable[[Shown], str]


@dataclass
class ModelPolicy:
    """A causal language model in this process that writes edits."""

    form: EditForm
    model: Any
    tokenizer: Any
    render_text: Render
    make_view: Callable[[str], View]
    temperature: float
    max_new_tokens: int
    max_prompt_tokens: int
    version: int = 0

    def view(self, source: str) -> View:
        """Return a program as this model is shown it."""
        return self.make_view(source)

    def render(self, shown: Shown) -> tuple[str, tuple[int, ...]]:
        """Return the prompt and its token ids.

        Raises:
            PolicyError: If the prompt leaves no room for a completion.
        """
        text = self.render_text(shown)
        tokens = tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        if len(tokens) > self.max_prompt_tokens:
            raise PolicyError(
                f"a prompt of {len(tokens)} tokens and {self.max_new_tokens} new ones do not fit "
                f"into the model's context of {self.max_prompt_tokens + self.max_new_tokens}; "
                f"lower policy.max_new_tokens or shorten the evolve block"
            )
        return text, tokens

    def sample(
        self, asks: Sequence[Ask], rollouts: int, answers: int
    ) -> Iterator[list[Completion]]:
        """Yield the completions of each ask; every one has a random stream of its own."""
        del answers  # the prompt asks for them
        samples = generate(
            self.model,
            [ask.tokens for ask in asks],
            rollouts,
            max_new_tokens=self.max_new_tokens,
            eos_id=self.tokenizer.eos_token_id,
            seeds=[seed_for(ask.key[0], "sample", *ask.key[1:]) for ask in asks],
            temperature=self.temperature,
        )
        for group in samples:
            yield [self._completion(sample.ids, sample.logprobs) for sample in group]

    def _completion(self, ids: tuple[int, ...], logprobs: Any) -> Completion:
        text = self._decode(list(ids))
        return Completion(
            text=text,
            tokens=ids,
            logprobs=tuple(logprobs.tolist()),
            offsets=tuple(token_ends(ids, text, self._decode)),
        )

    def _decode(self, ids: list[int]) -> str:
        text: str = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


@dataclass
class PolicyLearner:
    """Trains LoRA adapters on the rollouts of a run and hands each version to the policy."""

    policy: ModelPolicy
    config: Config
    folder: Path
    trainer: Trainer
    base: Any
    #: How many of the programs shown in a prompt its answers have to beat: all, or the parent.
    shows_inspirations: bool
    _initial: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        state = self.trainer.state_dict()
        state["weights"] = {name: value.clone() for name, value in state["weights"].items()}
        self._initial = state

    def load(self, version: int) -> None:
        """Make policy and trainer continue from a stored version; 0 is the initial policy.

        Raises:
            PolicyError: If its files are missing or do not fit.
        """
        if version == 0:
            self.trainer.load_state_dict(self._initial)
            self.policy.model, self.policy.version = self.base, 0
            return
        folder = self.folder / "adapters" / f"v{version}"
        try:
            self.trainer.load_state_dict(load_checkpoint(folder / "trainer.pt"))
            self.policy.model = load_version(self.base, folder)
        except ValueError as error:
            raise PolicyError(f"policy version {version}: {error}") from error
        self.policy.version = version

    def update(self, store: Store, round_: int) -> VersionRecord | None:
        """Train on the rounds since the last update; commit the new version or the rollback.

        Returns:
            The new version, active if it is in use now; or the former one, no longer active, if it
            did worse than its parent and was rolled back. None without rollouts to train on.

        Raises:
            PolicyError: If the policy's engine does not hold the trained weights afterwards.
        """
        learned = store.meta("learned")
        first = 0 if learned is None else learned + 1
        rolled_back = self._rolled_back(store, round_)
        if rolled_back is not None:
            return rolled_back
        rollouts = training_batch(
            store, first, round_, self.config.search.answers, self.shows_inspirations
        )
        if not rollouts:
            return None
        number = 1 + max((version.version for version in store.versions()), default=0)
        stats = self._train(rollouts, number)
        folder = ""
        if stats["accepted"]:
            path = save_version(self.trainer.model, self.folder / "adapters", number)
            save_checkpoint(self.trainer.state_dict(), path / "trainer.pt")
            folder = str(path.relative_to(self.folder))
            stats["probe"] = self._swap(path, rollouts)
        record = VersionRecord(
            number, round_, self.policy.version, bool(stats["accepted"]), folder, stats
        )
        with store.transaction():
            store.add_version(record)
            store.set_meta("learned", round_)
        if record.active:
            self.policy.version = number
        else:
            # A refused step may have drawn from the trainer's generator.
            self.load(self.policy.version)
        return record

    def _train(self, rollouts: Sequence[Rollout], number: int) -> dict[str, Any]:
        config = self.config.training
        advantages = compute_advantages(
            [rollout.rewards for rollout in rollouts],
            [rollout.group for rollout in rollouts],
            estimator=config.method,
            credit=config.credit,
            alpha=self.config.search.alpha,
            seed=seed_for(self.config.seed, "quadrature", number) % 2**32,
            **_gain(config, rollouts),
        )
        tokens = token_advantages(
            advantages,
            [rollout.answer_spans for rollout in rollouts],
            [len(rollout.completion_ids) for rollout in rollouts],
        )
        minibatches = max(1, round(len(rollouts) / config.batch))
        self.trainer.config = replace(self.trainer.config, minibatches=minibatches)
        stats = asdict(self.trainer.update(rollouts, tokens))
        stats["dead_groups"] = int(advantages.dead_groups.sum())
        stats["groups"] = len(advantages.groups)
        stats["mean_reward"] = float(np.mean([rollout.rewards.mean() for rollout in rollouts]))
        stats["mean_utility"] = float(advantages.utilities.mean())
        stats["mean_abs_advantage"] = float(np.abs(advantages.advantages).mean())
        # JSON has no NaN, and a refused update has some.
        return {
            key: None if isinstance(value, float) and not np.isfinite(value) else value
            for key, value in stats.items()
        }

    def _swap(self, path: Path, rollouts: Sequence[Rollout]) -> float:
        """Load a version into the engine; return how far its log-probabilities are off, nats."""
        engine = load_version(self.base, path)
        sequences = [
            [*rollout.prompt_ids, *rollout.completion_ids] for rollout in rollouts[:PROBE_SEQUENCES]
        ]
        try:
            gap = check_weights(model_scorer(engine), model_scorer(self.trainer.model), sequences)
        except WeightsMismatchError as error:
            raise PolicyError(f"{path}: {error}") from error
        self.policy.model = engine
        return gap

    def _rolled_back(self, store: Store, round_: int) -> VersionRecord | None:
        versions = {record.version: record for record in store.versions()}
        current = versions.get(self.policy.version)
        if current is None or not current.active:
            return None
        answers = self.config.search.answers
        now = useful_shares(store, current.version, answers)
        before = useful_shares(store, current.parent, answers)
        if not len(now) or not len(before):
            return None
        error = float(np.sqrt(now.var() / len(now) + before.var() / len(before)))
        drop = float(before.mean() - now.mean())
        if drop <= ROLLBACK_ERRORS * error or now.mean() >= ROLLBACK_SHARE * before.mean():
            return None
        reason = (
            f"rolled back to v{current.parent}: useful answers fell from {before.mean():.1%} to "
            f"{now.mean():.1%}"
        )
        with store.transaction():
            store.set_active(current.version, False)
            store.add_event(round_, "rollback", f"policy v{current.version} {reason}")
            store.set_meta("learned", round_)
        self.load(current.parent)
        return replace(current, active=False, stats={**current.stats, "reason": reason})


def training_batch(
    store: Store, first: int, last: int, answers: int, shows_inspirations: bool
) -> list[Rollout]:
    """Return the rollouts of a range of rounds, both ends included, with their reward matrices.

    An answer that did not become a valid new program has a row of zeros; one that repeats a program
    first proposed in the same round shares its rewards, since it was as good an idea.

    Args:
        store: The run.
        first: First round.
        last: Last round.
        answers: Rows of each matrix, m.
        shows_inspirations: Whether answers are held against the inspirations beside the parent.
    """
    prompts = {prompt.id: prompt for prompt in store.prompts(first, last)}
    verdicts = store.evaluations_of_rounds(first, last)
    by_rollout: dict[int, list[Candidate]] = {}
    for candidate in store.candidates_of_rounds(first, last):
        by_rollout.setdefault(candidate.rollout or 0, []).append(candidate)
    rounds = {
        candidate.id: prompts[rollout.prompt].round
        for rollout in store.rollouts(first, last)
        for candidate in by_rollout.get(rollout.id, [])
    }
    references: dict[int, tuple[float, ...]] = {}

    def reward_of(program: int) -> tuple[float, ...]:
        if program not in references:
            verdict = store.evaluation(program)
            references[program] = (verdict.rewards or ()) if verdict else ()
        return references[program]

    batch = []
    for rollout in store.rollouts(first, last):
        prompt = prompts[rollout.prompt]
        if not rollout.tokens:
            continue
        shown = [prompt.parent, *(prompt.inspirations if shows_inspirations else ())]
        reference = np.array([reward_of(program) for program in shown])
        rewards = np.zeros((answers, reference.shape[1]))
        end = len(rollout.tokens)
        spans = [(end, end)] * answers
        for candidate in by_rollout.get(rollout.id, []):
            spans[candidate.answer] = candidate.tokens
            judged = candidate.id
            if candidate.twin is not None and rounds.get(candidate.twin) == prompt.round:
                judged = candidate.twin
            verdict = verdicts.get(judged)
            if verdict is not None and verdict.rewards is not None:
                rewards[candidate.answer] = verdict.rewards
        batch.append(
            Rollout(
                prompt_ids=prompt.tokens,
                completion_ids=rollout.tokens,
                behaviour_logprobs=np.array(rollout.logprobs, np.float32),
                rewards=rewards,
                answer_spans=spans,
                group=prompt.id,
                version=rollout.version,
                reference=reference,
            )
        )
    return batch


def useful_shares(store: Store, version: int, answers: int) -> npt.NDArray[np.float64]:
    """Return, for each prompt that a version answered, the share of its answers that were useful.

    Useful is an answer that became a valid program which the run had not seen; ``answers`` is the
    number asked for in one rollout.
    """
    rounds = [entry["round"] for entry in store.rounds() if entry["version"] == version]
    if not rounds:
        return np.zeros(0)
    first, last = min(rounds), max(rounds)
    prompt_of = {rollout.id: rollout.prompt for rollout in store.rollouts(first, last)}
    asked: dict[int, int] = dict.fromkeys(prompt_of.values(), 0)
    useful = dict(asked)
    for prompt in prompt_of.values():
        asked[prompt] += answers
    verdicts = store.evaluations_of_rounds(first, last)
    for candidate in store.candidates_of_rounds(first, last):
        verdict = verdicts.get(candidate.id)
        if candidate.rollout is not None and verdict is not None and verdict.rewards is not None:
            useful[prompt_of[candidate.rollout]] += 1
    return np.array([useful[prompt] / asked[prompt] for prompt in asked])


def open_model(config: Config, folder: Path) -> tuple[ModelPolicy, PolicyLearner | None]:
    """Return the policy of a configuration that has a model, and what trains it.

    Raises:
        ConfigError: If the training section does not fit together.
        PolicyError: If the model cannot be loaded.
    """
    _check_training(config.training)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    embedded = config.policy.name == "pocket"
    if embedded:
        # A model this small is slower on several threads, and its logits depend on their number.
        torch.set_num_threads(1)
    policy = _open_pocket(config) if embedded else _open_general(config)
    if not config.training.every:
        return policy, None
    base = policy.model
    # A copy, so that the engine keeps sampling from its own weights while the next are made.
    adapted = attach_lora(
        copy.deepcopy(base),
        rank=config.policy.lora_rank,
        seed=seed_for(config.seed, "lora"),
    )
    settings = TrainerConfig(
        learning_rate=config.training.learning_rate,
        kl_coef=config.training.kl,
        epochs=config.training.epochs,
        temperature=config.policy.temperature,
    )
    trainer = Trainer(adapted, settings, seed=seed_for(config.seed, "trainer"))
    return policy, PolicyLearner(policy, config, folder, trainer, base, not embedded)


def _gain(config: Training, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    if config.method not in ("vpo", "vpo_iid") or not config.gain:
        return {}
    options: dict[str, Any] = {"references": [rollout.reference for rollout in rollouts]}
    if config.method == "vpo" and config.shaping:
        # Mean reward of the answers, so that groups in which nothing beats the parent still rank.
        k = rollouts[0].rewards.shape[1]
        options["multipliers"] = [config.shaping / k] * k
    return options


def _check_training(training: Training) -> None:
    if training.method not in ESTIMATORS:
        raise ConfigError(
            f"training.method = {training.method!r}: allowed are {', '.join(ESTIMATORS)}"
        )
    if training.credit != "rollout" and not ESTIMATORS[training.method].linear:
        raise ConfigError(
            f"training.credit = {training.credit!r}: {training.method} compares whole rollouts, "
            f"'rollout' is allowed"
        )


def _open_general(config: Config) -> ModelPolicy:
    name: str | Path = config.policy.name.removeprefix("hf:")
    if name == "smollm2":
        name = smollm2_folder()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    try:
        model, tokenizer = load_policy(name, dtype=dtype, device=device)
    except ValueError as error:
        raise PolicyError(str(error)) from error
    form: EditForm = "line"

    def render(shown: Shown) -> str:
        text = instruct(shown, form)
        if not tokenizer.chat_template:
            return f"{text}\n"
        chat: str = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        return chat

    context = getattr(model.config, "max_position_embeddings", 4096)
    return ModelPolicy(
        form,
        model,
        tokenizer,
        render,
        raw_view,
        config.policy.temperature,
        config.policy.max_new_tokens,
        context - config.policy.max_new_tokens,
    )


def _open_pocket(config: Config) -> ModelPolicy:
    if config.search.answers > pocket.MAX_ANSWERS:
        raise ConfigError(
            f"search.answers = {config.search.answers}: the pocket model writes "
            f"{pocket.MAX_ANSWERS} answers at most"
        )

    def render(shown: Shown) -> str:
        rng = rng_for(shown.key[0], "window", *shown.key[1:])
        return pocket.render(shown.view.lines, shown.rewards, shown.weights, shown.answers, rng)

    try:
        model, tokenizer = load_policy(pocket.weights_folder())
    except ValueError as error:
        raise PolicyError(str(error)) from error
    return ModelPolicy(
        "line",
        model,
        tokenizer,
        render,
        canonical_view,
        config.policy.temperature,
        config.policy.max_new_tokens,
        pocket.MAX_PROMPT_TOKENS,
    )
