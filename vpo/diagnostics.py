"""What a batch of rollouts says about a run, and what to change.

    from vpo.diagnostics import measure, report

    print(report(rewards, group_ids))              # one batch
    values = measure(rewards, group_ids, texts=texts, stats=stats)
    print(judge(values, past))                     # within a run; past: values of earlier batches

Only rewards and groups are needed; what else is passed adds measures. All thresholds and all advice
stand in :mod:`vpo.measures`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite, log
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vpo.advantages import Advantages, compute_advantages
from vpo.evaluation import pairwise_l1
from vpo.expected import Preference
from vpo.measures import MEASURES
from vpo.sets import Floats, RewardBatch, by_shape, undominated
from vpo.utility import set_utility

if TYPE_CHECKING:
    from vpo.tally import UpdateStats

#: Weights under which the winners are looked for.
_WEIGHTS = 256
# Fields of UpdateStats -> measures.
_OF_UPDATE = {
    "entropy": "entropy",
    "effective_samples": "effective_samples",
    "ratio_mean": "ratio_mean",
    "ratio_max": "ratio_max",
    "weight_zero_fraction": "masked",
    "kl": "kl",
    "step_kl": "step_kl",
    "clip_fraction": "clip_fraction",
    "grad_norm": "grad_norm",
}


@dataclass(frozen=True)
class Finding:
    """One measure of a batch.

    Attributes:
        name: Its key in :data:`vpo.measures.MEASURES`.
        value: The number.
        alarm: Whether to act.
    """

    name: str
    value: float
    alarm: bool


@dataclass(frozen=True)
class Report:
    """All findings of a batch; ``str(report)`` is for people."""

    findings: tuple[Finding, ...]

    @property
    def alarms(self) -> tuple[str, ...]:
        """The names of the measures that call for action."""
        return tuple(finding.name for finding in self.findings if finding.alarm)

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            row = MEASURES[finding.name]
            limit = f"  (alarm: {row.alarm})" if row.alarm else ""
            flag = "ALARM" if finding.alarm else "ok" if row.alarm else ""
            lines.append(f"  {flag:<5}  {row.title:<38} {finding.value:>9.3g}{limit}")
        lines.append("What to change:" if self.alarms else "Nothing calls for a change.")
        lines += [f"- {MEASURES[n].title}: {MEASURES[n].advice}" for n in self.alarms]
        return "\n".join(lines)


def judge(values: Mapping[str, float], past: Sequence[Mapping[str, float]] = ()) -> Report:
    """Return which values are alarming, given those of earlier batches, oldest first.

    Raises:
        ValueError: If a name is unknown.
    """
    unknown = sorted(set(values) - set(MEASURES))
    if unknown:
        raise ValueError(f"measure {unknown[0]!r} is unknown, allowed: {', '.join(MEASURES)}")
    findings = []
    for name, row in MEASURES.items():
        if name not in values:
            continue
        before = [float(earlier[name]) for earlier in past if name in earlier]
        alarm = row.alarm is not None and row.alarm.raised(values[name], before)
        findings.append(Finding(name, float(values[name]), alarm))
    return Report(tuple(findings))


def report(rewards: RewardBatch, group_ids: Sequence[int] | npt.NDArray[Any], **more: Any) -> str:
    """Return as text what one batch says and what to change; ``more`` as for :func:`measure`."""
    n = len(rewards)
    head = f"{n} rollouts of {len(np.unique(np.asarray(group_ids)))} prompts\n"
    return head + str(judge(measure(rewards, group_ids, **more))) + "\n"


def measure(
    rewards: RewardBatch,
    group_ids: Sequence[int] | npt.NDArray[Any],
    *,
    advantages: Advantages | None = None,
    alpha: float = 1.0,
    asked: int | None = None,
    texts: Sequence[Sequence[str]] | None = None,
    parents: Sequence[Sequence[str]] | None = None,
    fingerprint: Callable[[str], Hashable] | None = None,
    finished: Sequence[bool] | None = None,
    logprobs: Sequence[npt.ArrayLike] | None = None,
    spans: Sequence[Sequence[tuple[int, int]]] | None = None,
    versions: Sequence[int] | None = None,
    version: int | None = None,
    floors: Sequence[float] | None = None,
    stats: UpdateStats | None = None,
    probe_gap: float | None = None,
    quality: float | None = None,
) -> dict[str, float]:
    """Return the measures of a batch by name; those that cannot be computed are left out.

    Args:
        rewards: As for :func:`vpo.advantages.compute_advantages`.
        group_ids: (n,) rollouts of one prompt share an id.
        advantages: What the batch was trained with; by default those of ``"vpo"``.
        alpha: Concentration of the weights.
        asked: Answers asked for in a rollout; by default the most that one has.
        texts: For each rollout the texts of its answers.
        parents: For each rollout the texts that its prompt showed.
        fingerprint: What two texts share that are the same answer; by default the text with white
            space collapsed. For programs a normalised syntax tree is better.
        finished: Whether each completion ended by itself.
        logprobs: For each rollout the log-probabilities of its tokens under the policy that sampled
            it.
        spans: For each rollout the token spans of its answers, in order.
        versions: (n,) policy versions that sampled the rollouts.
        version: The policy version that is trained.
        floors: (k,) least mean rewards.
        stats: What :meth:`vpo.trainer.Trainer.update` returned.
        probe_gap: What :func:`vpo.probe.largest_gap` returned, nats.
        quality: Of held-out prompts, larger is better.

    Raises:
        ValueError: If a shape does not fit.
    """
    sets = [np.asarray(matrix, dtype=np.float64) for matrix in rewards]
    ids = np.asarray(group_ids)
    n = len(sets)
    for name, given in {
        "texts": texts,
        "parents": parents,
        "finished": finished,
        "logprobs": logprobs,
        "spans": spans,
        "versions": versions,
    }.items():
        if given is not None and len(given) != n:
            raise ValueError(f"{name}: {len(given)} entries for {n} rollouts")
    result = advantages or compute_advantages(rewards, ids, alpha=alpha)
    values = _of_rewards(sets, ids, floors)
    values |= _of_sets(sets, ids, alpha)
    values |= _of_texts(sets, ids, asked, texts, parents, fingerprint)
    values |= _of_tokens(logprobs, spans)
    values |= _of_signal(result, ids)
    if finished is not None and n:
        values["truncated"] = 1.0 - float(np.mean(finished))
    if versions is not None and version is not None and n:
        values["policy_lag"] = float(version - min(versions))
    if stats is not None:
        numbers = {field.name: getattr(stats, field.name) for field in fields(stats)}
        values |= {to: float(numbers[of]) for of, to in _OF_UPDATE.items()}
        values["refused"] = float(bool(stats.reason) and stats.rollouts > 0)
    for name, value in (("probe_gap", probe_gap), ("quality", quality)):
        if value is not None:
            values[name] = float(value)
    return {name: values[name] for name in MEASURES if isfinite(values.get(name, np.nan))}


def reward_structure(rows: Floats, ids: npt.NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """Return Pearson and Spearman correlations (k, k) of rewards centred by prompt, and spreads.

    Args:
        rows: (N, k) reward vectors of answers.
        ids: (N,) their prompts.

    Returns:
        The correlations among rewards that vary at all, NaN for the others; and the (k,) standard
        deviations of the centred rewards.
    """
    ranks = np.empty_like(rows)
    centred = np.empty_like(rows)
    from scipy.stats import rankdata

    for group in np.unique(ids):
        part = rows[ids == group]
        centred[ids == group] = part - part.mean(axis=0)
        # Ranked within the prompt: how hard a prompt is must not show.
        placed = rankdata(part, axis=0)
        ranks[ids == group] = placed - placed.mean(axis=0)
    return _correlation(centred), _correlation(ranks), centred.std(axis=0)


def _correlation(centred: Floats) -> Floats:
    norms = np.sqrt((centred**2).sum(axis=0))
    # What is left of equal numbers after centring is rounding.
    norms[norms < 1e-9 * np.sqrt(max(len(centred), 1))] = np.nan
    unit = centred / norms
    result: Floats = unit.T @ unit
    return result


def _of_rewards(
    sets: Sequence[Floats], ids: npt.NDArray[Any], floors: Sequence[float] | None
) -> dict[str, float]:
    values: dict[str, float] = {}
    flat = [(matrix, group) for matrix, group in zip(sets, ids, strict=True) if matrix.size]
    if not flat:
        return values
    values["mean_reward"] = float(np.mean([matrix.mean() for matrix, _ in flat]))
    constant = []
    for k in sorted({matrix.shape[1] for matrix, _ in flat}):
        some = [(matrix, group) for matrix, group in flat if matrix.shape[1] == k]
        rows = np.concatenate([matrix for matrix, _ in some])
        groups = np.repeat([group for _, group in some], [len(matrix) for matrix, _ in some])
        pearson, spearman, spread = reward_structure(rows, groups)
        varies = np.isfinite(np.diag(pearson))
        constant += (~varies).tolist()
        alive = pearson[varies][:, varies]
        if len(alive) == 0:
            continue
        pairs = np.triu_indices(len(alive), 1)
        both = np.concatenate([alive[pairs], spearman[varies][:, varies][pairs]])
        spectrum = np.linalg.eigvalsh(alive).clip(0.0)
        share = spectrum / spectrum.sum()
        rank = float(np.exp(-(share * np.log(np.where(share > 0, share, 1.0))).sum()))
        # Of prompts with different numbers of rewards the worst kind counts.
        if k > 1:
            worst = values.get("reward_correlation", -1.0)
            values["reward_correlation"] = max(worst, float(both.max(initial=-1.0)))
            values["effective_rank"] = min(values.get("effective_rank", np.inf), rank)
            scales = float(spread[varies].max() / spread[varies].min())
            values["scale_ratio"] = max(values.get("scale_ratio", 1.0), scales)
            ratio = float(1.0 / (share**2).sum())
            values["participation"] = min(values.get("participation", np.inf), ratio)
    values["constant_rewards"] = float(np.mean(constant))
    if floors is not None:
        means = np.mean([matrix.mean(axis=0) for matrix, _ in flat], axis=0)
        if means.shape != np.shape(floors):
            raise ValueError(f"floors: {len(floors)} for {len(means)} rewards")
        values["below_floor"] = float((means < np.asarray(floors)).sum())
    return values


def _of_sets(sets: Sequence[Floats], ids: npt.NDArray[Any], alpha: float) -> dict[str, float]:
    values: dict[str, float] = {}
    if not sets:
        return values
    utility = set_utility(list(sets), alpha=alpha)
    mean = float(utility.expected_max.mean())
    values["set_utility"] = mean
    values["best_reward"] = float(utility.best.mean())
    pools = []
    for group in np.unique(ids):
        members = [sets[i] for i in np.flatnonzero(ids == group).tolist() if sets[i].size]
        pools.append(np.concatenate(members) if members else np.empty((0, 0)))
    if mean > 0.0:
        values["specialisation"] = float(utility.specialisation.mean()) / mean
        values["pool_gain"] = float(set_utility(pools, alpha=alpha).expected_max.mean()) / mean - 1
    entropy, winners, idle, front, apart = [], [], [], [], []
    preference = Preference(alpha, n_weights=_WEIGHTS)
    for bucket in by_shape(list(sets)):
        b, m, k = bucket.rows.shape
        if m < 2:
            continue
        weights = preference.quadrature(k).weights
        best = np.stack([(rows @ weights.T).argmax(axis=0) for rows in bucket.rows])
        shares = np.stack([(best == s).mean(axis=1) for s in range(m)], axis=1)
        logs = np.log(np.where(shares > 0.0, shares, 1.0))
        entropy += (-(shares * logs).sum(axis=1) / log(m)).tolist()
        winners += (shares > 0.0).sum(axis=1).tolist()
        idle += (shares == 0.0).mean(axis=1).tolist()
        front += undominated(bucket.rows).mean(axis=1).tolist()
        apart += [pairwise_l1(bucket.rows[i]) for i in range(b)]
    if entropy:
        values["winner_entropy"] = float(np.mean(entropy))
        values["winners"] = float(np.mean(winners))
        values["idle_answers"] = float(np.mean(idle))
        values["pareto_share"] = float(np.mean(front))
        values["pairwise_l1"] = float(np.mean(apart))
    return values


def _of_texts(
    sets: Sequence[Floats],
    ids: npt.NDArray[Any],
    asked: int | None,
    texts: Sequence[Sequence[str]] | None,
    parents: Sequence[Sequence[str]] | None,
    fingerprint: Callable[[str], Hashable] | None,
) -> dict[str, float]:
    values: dict[str, float] = {}
    again = [same for matrix in sets for same in _repeats(map(tuple, matrix.tolist()))]
    if again:
        values["same_rewards"] = float(np.mean(again))
    wanted = asked or max((len(matrix) for matrix in sets), default=0)
    if texts is None:
        if wanted:
            values["answers_share"] = float(np.mean([len(m) for m in sets])) / wanted
        return values
    key = fingerprint or _collapsed
    repeated, of_parent, distinct = [], [], []
    for i, answers in enumerate(texts):
        prints = [key(text) for text in answers]
        shown = {key(text) for text in parents[i]} if parents is not None else set()
        copied = [print_ in shown for print_ in prints]
        of_parent += copied
        repeated += [a or b for a, b in zip(copied, _repeats(prints), strict=True)]
        distinct.append(len(set(prints)))
    if repeated:
        values["copies"] = float(np.mean(repeated))
        if parents is not None:
            values["parent_copies"] = float(np.mean(of_parent))
        openings = []
        for group in np.unique(ids):
            lines = [
                text.strip().split("\n", 1)[0]
                for i in np.flatnonzero(ids == group).tolist()
                for text in texts[i]
            ]
            if lines:
                openings.append(len(set(lines)) / len(lines))
        values["first_lines"] = float(np.mean(openings))
    if wanted:
        values["answers_share"] = float(np.mean(distinct)) / wanted
    return values


def _of_tokens(
    logprobs: Sequence[npt.ArrayLike] | None,
    spans: Sequence[Sequence[tuple[int, int]]] | None,
) -> dict[str, float]:
    if logprobs is None:
        return {}
    surprisal = [-np.asarray(row, dtype=np.float64) for row in logprobs]
    every = np.concatenate([np.zeros(0), *surprisal])
    values: dict[str, float] = {}
    if len(every):
        values["entropy"] = float(np.nanmean(every))
        values["length"] = float(np.mean([len(row) for row in surprisal]))
    if spans is not None:
        first, last = [], []
        for row, answers in zip(surprisal, spans, strict=True):
            parts = [row[start:stop] for start, stop in answers if stop > start]
            if len(parts) > 1:
                first += parts[0].tolist()
                last += parts[-1].tolist()
        if first and np.nanmean(first) > 0.0:
            # Bounded: the first answer may be all but certain.
            values["late_entropy"] = min(10.0, float(np.nanmean(last) / np.nanmean(first)))
    return values


def _of_signal(result: Advantages, ids: npt.NDArray[Any]) -> dict[str, float]:
    if not len(ids):
        return {}
    tied = [np.ptp(result.utilities[ids == group]) == 0.0 for group in result.groups]
    return {
        "no_signal": float(result.dead_groups.mean()),
        "tied": float(np.mean(tied)),
        "advantage_max": float(np.abs(result.advantages).max()),
    }


def _repeats(values: Iterable[Hashable]) -> list[bool]:
    """Return for each value whether an earlier one equals it."""
    seen: set[Hashable] = set()
    found = []
    for value in values:
        found.append(value in seen)
        seen.add(value)
    return found


def _collapsed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
