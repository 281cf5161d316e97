"""What is watched while a policy learns: every measure, its threshold and its remedy, in one place.

:mod:`vpo.diagnostics` computes the values. The thresholds are starting points for a first run, not
laws: replace a row of :data:`MEASURES` where your task teaches you better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

import numpy as np

#: Batches that make up "the start" of a run; alarms that compare with it wait for them.
START = 10
#: Latest batches that a sudden drop is compared with.
RECENT = 50


@dataclass(frozen=True)
class Alarm:
    """When a value is alarming.

    Attributes:
        kind: ``"above"`` and ``"below"``: the limit is a value. ``"fell"`` and ``"grew"``: the
            limit is a multiple of the mean at the start of the run. ``"drop"``: the limit is a
            number of standard deviations below the mean of the latest batches.
        limit: See ``kind``.
        lasting: In so many batches in a row.
    """

    kind: Literal["above", "below", "fell", "grew", "drop"]
    limit: float
    lasting: int = 1

    def raised(self, value: float, past: Sequence[float]) -> bool:
        """Return whether ``value`` is alarming after the values ``past``, oldest first."""
        values = [*(number for number in past if isfinite(number)), value]
        if not isfinite(value) or len(values) < self.lasting:
            return False
        ends = range(len(values) - self.lasting, len(values))
        return all(self._beyond(values[end], values[:end]) for end in ends)

    def _beyond(self, value: float, past: Sequence[float]) -> bool:
        if self.kind == "above":
            return value > self.limit
        if self.kind == "below":
            return value < self.limit
        if len(past) < START:
            return False
        if self.kind == "drop":
            recent = np.array(past[-RECENT:])
            return bool(value < recent.mean() - self.limit * recent.std(ddof=1))
        start = self.limit * float(np.mean(past[:START]))
        return value < start if self.kind == "fell" else value > start

    def __str__(self) -> str:
        text = {
            "above": f"above {self.limit:g}",
            "below": f"below {self.limit:g}",
            "fell": f"below {self.limit:g} x its start",
            "grew": f"above {self.limit:g} x its start",
            "drop": f"{self.limit:g} standard deviations below its recent mean",
        }[self.kind]
        return text + (f" in {self.lasting} batches in a row" if self.lasting > 1 else "")


@dataclass(frozen=True)
class Measure:
    """One row of :data:`MEASURES`.

    Attributes:
        title: In words.
        meaning: What exactly is computed.
        alarm: When to act, or None for a number that only informs.
        advice: What to change then.
    """

    title: str
    meaning: str
    alarm: Alarm | None = None
    advice: str = ""


MEASURES: dict[str, Measure] = {
    # The rewards: can a vector teach more than its mean?
    "reward_correlation": Measure(
        "reward correlation",
        "largest correlation (Pearson or Spearman) of two rewards over answers, centred by prompt",
        Alarm("above", 0.95),
        "Two rewards say the same. Merge them, or replace one by something that conflicts with it.",
    ),
    "effective_rank": Measure(
        "effective number of rewards",
        "exp of the entropy of the normalised eigenvalues of that Pearson correlation matrix",
        Alarm("below", 1.3),
        "The rewards rise and fall together, and VPO is scalar training with extra noise. Split "
        "the score into parts that conflict (one reward a test case, cost against quality), or "
        "train with max_at_k.",
    ),
    "participation": Measure(
        "participation ratio of rewards",
        "(sum of eigenvalues)^2 / sum of their squares, of the same matrix",
    ),
    "constant_rewards": Measure(
        "rewards that never vary",
        "share of rewards that are constant among the answers to each prompt",
        Alarm("above", 0.5),
        "Most rewards teach nothing. Drop those that are always reached or never, or change their "
        "range.",
    ),
    "scale_ratio": Measure(
        "scales of the rewards",
        "largest over smallest spread of a reward among the answers to a prompt",
        Alarm("above", 30),
        "One reward's numbers are so much larger that the others hardly count. Bring them to one "
        "scale (vpo.scales).",
    ),
    # The answers of a rollout: are they a set?
    "specialisation": Measure(
        "specialisation share D / R",
        "mean gain of a set over its best answer, relative to the mean set utility",
        Alarm("fell", 0.5),
        "Answers become alike. Raise lambda_d, lower alpha (towards 0 every reward counts by "
        "itself), or raise the temperature.",
    ),
    "pool_gain": Measure(
        "gain of a group over its rollouts",
        "set utility of all answers to a prompt less that of one rollout, relative to the latter",
    ),
    "winner_entropy": Measure(
        "winner entropy",
        "entropy of the answers' shares of the weights under which they are best, over ln m",
        Alarm("below", 0.3, lasting=20),
        "One answer wins nearly everywhere: diversity has collapsed. Raise lambda_d and the "
        "entropy coefficient, go back to an earlier version, and see that the prompt asks for "
        "answers that differ.",
    ),
    "winners": Measure("distinct winners", "answers of a rollout that are best under some weight"),
    "idle_answers": Measure(
        "answers that add nothing", "share of answers without which the set is worth the same"
    ),
    "pareto_share": Measure(
        "answers on the front", "share of answers that none of their rollout weakly dominates"
    ),
    "pairwise_l1": Measure(
        "reward distance of answers", "mean L1 distance of two reward vectors of a rollout"
    ),
    "copies": Measure(
        "repeated answers",
        "share of answers whose text an earlier answer of the rollout or a parent has",
        Alarm("above", 0.2),
        "The policy repeats itself or its prompt. Score the gain over the parents (references), "
        "ask for different answers, give repeated ones no reward.",
    ),
    "parent_copies": Measure("copies of a parent", "share of answers with the text of a parent"),
    "same_rewards": Measure(
        "answers that behave alike", "share of answers with the rewards of an earlier one"
    ),
    "answers_share": Measure(
        "answers read of those asked for",
        "mean number of distinct answers of a rollout over the number asked for",
        Alarm("below", 0.7),
        "Answers are missing. Show the answer format in the prompt, allow more tokens, or ask for "
        "fewer answers.",
    ),
    "truncated": Measure(
        "completions cut at the token limit",
        "share of completions that did not end by themselves",
        Alarm("above", 0.2),
        "The last answers are cut off and count as nothing. Allow more new tokens or ask for fewer "
        "or shorter answers.",
    ),
    # The policy.
    "entropy": Measure(
        "token entropy",
        "mean entropy of the policy, nats; where no update is at hand, mean surprisal of its "
        "tokens",
        Alarm("fell", 0.5),
        "The policy narrows too fast. Keep the temperature near 1, raise the entropy coefficient "
        "or the KL to the initial policy, lower the learning rate.",
    ),
    "late_entropy": Measure(
        "entropy of the last answer",
        "mean surprisal in the last answer over that in the first",
        Alarm("below", 0.3),
        "Later answers follow from the first. Credit answers by prefix, so that each earns what it "
        "adds.",
    ),
    "first_lines": Measure(
        "distinct openings", "distinct first lines of the answers to a prompt over their number"
    ),
    "length": Measure(
        "completion length",
        "mean number of tokens of a completion",
        Alarm("grew", 2.0),
        "Completions grow. See whether length pays (a reward that adds up over answers?), lower "
        "the token limit, or average the loss over sequences.",
    ),
    # The signal.
    "no_signal": Measure(
        "prompts without signal",
        "share of groups whose utilities tie within the error of the quadrature",
        Alarm("above", 0.6),
        "Most rollouts are sampled for nothing. Choose prompts of middling difficulty, refine "
        "rewards that are all or nothing, or enlarge the groups.",
    ),
    "tied": Measure("prompts whose rollouts tie", "share of groups with exactly equal utilities"),
    "advantage_max": Measure("largest advantage", "largest absolute advantage of a rollout"),
    # Engine against trainer.
    "effective_samples": Measure(
        "effective samples",
        "(sum ratio)^2 / (tokens x sum ratio^2) of the importance ratios of tokens",
        Alarm("below", 0.5),
        "Rollouts come from too different a policy. Stop, load the trained weights into the engine "
        "again, train on fresh rollouts with fewer steps.",
    ),
    "ratio_mean": Measure("mean importance ratio", "of tokens, present over behaviour policy"),
    "ratio_max": Measure("largest importance ratio", "of a token, present over behaviour policy"),
    "masked": Measure(
        "tokens masked by the engine correction",
        "share of tokens with weight 0",
        Alarm("above", 0.3),
        "Much of the batch is thrown away. Truncate by token instead of masking by sequence, or "
        "find out why engine and trainer differ.",
    ),
    "policy_lag": Measure(
        "policy lag",
        "versions between the oldest rollout and the policy that is trained",
        Alarm("above", 1),
        "Rollouts are stale. Train on those of the latest version only.",
    ),
    "probe_gap": Measure(
        "engine against trainer",
        "largest difference of their log-probabilities on the probe, nats",
        Alarm("above", 0.05),
        "The engine does not hold the trained weights. Stop and load them again.",
    ),
    # Quality.
    "mean_reward": Measure(
        "mean reward of an answer",
        "over answers and rewards; a missing answer is none",
        Alarm("drop", 2.0),
        "Quality falls. Cut lambda_d, set floors on rewards (vpo.controllers.RewardFloors), go "
        "back to the last good version.",
    ),
    "best_reward": Measure(
        "mean reward of the best answer", "of a rollout, averaged over the batch"
    ),
    "set_utility": Measure("set utility R", "mean over the batch"),
    "quality": Measure(
        "held-out quality",
        "what the caller evaluates, for example best@k",
        Alarm("drop", 2.0),
        "The policy does worse on held-out prompts. Go back to the last good version and lower the "
        "learning rate.",
    ),
    "below_floor": Measure(
        "rewards below their floor",
        "number of rewards whose mean over the answers is below the floor",
        Alarm("above", 0),
        "Use the multipliers of vpo.controllers.RewardFloors in the advantages until they are met.",
    ),
    # The optimiser.
    "kl": Measure(
        "KL to the initial policy",
        "nats per token",
        Alarm("above", 0.1),
        "The policy has drifted far. Raise kl_coef, lower the learning rate, or start again from "
        "the initial policy with what the archive has learned.",
    ),
    "step_kl": Measure("KL of the update", "nats per token, from behaviour to updated policy"),
    "refused": Measure(
        "update undone",
        "1 where the update was not finite or moved the policy too far, else 0",
        Alarm("above", 0, lasting=3),
        "No update gets through. Lower the learning rate; if the steps are meant, raise "
        "max_step_kl.",
    ),
    "clip_fraction": Measure(
        "tokens that are clipped",
        "share of tokens whose gradient the clip stops",
        Alarm("above", 0.3),
        "Steps are too long. Lower the learning rate, use fewer epochs or mini-batches.",
    ),
    "grad_norm": Measure(
        "gradient norm",
        "largest norm before clipping",
        Alarm("grew", 10.0),
        "The gradient explodes. Lower the learning rate and look at the batch: one rollout may "
        "carry it all (largest advantage, largest ratio).",
    ),
}
