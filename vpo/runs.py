"""The folder of a training run: its configuration and its rows.

out/config.json        what was asked for, complete
out/steps.jsonl        one line a step: measures of the batch, fate of the update, alarms
out/evaluations.jsonl  one line an evaluation: best@s, set curve, diversity on held-out prompts
out/checkpoint.pt      trainer and step, replaced as a whole
out/policy/vN          the trained policy as an adapter, or as a whole model
out/curves.png, .svg   the pictures
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

from vpo.advantages import ESTIMATORS
from vpo.controllers import (
    Controllers,
    DiversityBand,
    EntropyTarget,
    RewardFloors,
    TemperatureSchedule,
)
from vpo.diagnostics import Report, judge
from vpo.worth import Credit


@dataclass(frozen=True)
class TrainingConfig:
    """A training run, complete.

    Attributes:
        task: Folder of the task.
        policy: ``hf:NAME_OR_PATH``, or a name registered in the group ``vpo.policies``.
        method: A name of :data:`vpo.advantages.ESTIMATORS`.
        credit: See :func:`vpo.advantages.compute_advantages`.
        alpha: Concentration of the preference weights.
        lambda_d: Weight of the specialisation gain.
        steps: Updates in all.
        prompts: Prompts of a step.
        group_size: Completions of each.
        answers: Answers that count in a completion.
        max_new_tokens: Longest completion.
        temperature: Of sampling, in training and evaluation.
        learning_rate: Of AdamW.
        lora_rank: Rank of the adapter; 0 trains all weights.
        kl: Weight of the KL to the initial policy.
        entropy: Weight of the entropy, at the start if there is a target.
        entropy_target: Entropy of a token, nats, that its weight is steered to; 0 for none.
        temperature_floor: Temperature at the last step, reached along a cosine; 0 for no change.
        floors: (k,) least mean rewards, held by multipliers; empty for none.
        band: Share D / R to which lambda_d is steered; all of [0, 1] for no steering.
        token_budget: Padded tokens of a micro-batch.
        evaluate_every: Steps between evaluations; there is one before the first and one at the end.
        evaluation_rollouts: Completions of each held-out prompt.
        evaluation_prompts: Held-out prompts to use, at most.
        save_every: Steps between checkpoints.
        seed: Of everything.
    """

    task: str
    policy: str
    method: str = "vpo"
    credit: Credit = "rollout"
    alpha: float = 1.0
    lambda_d: float = 1.0
    steps: int = 100
    prompts: int = 8
    group_size: int = 8
    answers: int = 3
    max_new_tokens: int = 256
    temperature: float = 1.0
    learning_rate: float = 1e-5
    lora_rank: int = 16
    kl: float = 1e-3
    entropy: float = 0.0
    entropy_target: float = 0.0
    temperature_floor: float = 0.0
    floors: tuple[float, ...] = ()
    band: tuple[float, float] = (0.0, 1.0)
    token_budget: int = 8192
    evaluate_every: int = 10
    evaluation_rollouts: int = 16
    evaluation_prompts: int = 64
    save_every: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in ESTIMATORS:
            raise ValueError(f"method is {self.method!r}, allowed: {', '.join(ESTIMATORS)}")
        if self.credit not in get_args(Credit):
            raise ValueError(f"credit is {self.credit!r}, allowed: {', '.join(get_args(Credit))}")
        if self.credit != "rollout" and not ESTIMATORS[self.method].linear:
            raise ValueError(
                f"credit is {self.credit!r}: {self.method} compares whole rollouts, "
                "'rollout' is allowed"
            )
        least = {"lora_rank": 0, "seed": 0, "group_size": 2}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, int) and value < least.get(entry.name, 1):
                raise ValueError(
                    f"{entry.name} is {value}, at least {least.get(entry.name, 1)} is needed"
                )
        # JSON and the command line bring lists.
        object.__setattr__(self, "floors", tuple(self.floors))
        object.__setattr__(self, "band", tuple(self.band))
        if self.floors and ESTIMATORS[self.method].worth in ("vector", "iid"):
            raise ValueError(f"floors: {self.method} has no scalar worth to add multipliers to")
        if self.band != (0.0, 1.0) and self.method != "vpo":
            raise ValueError(f"band: steers lambda_d, which {self.method} does not have")
        for name in ("alpha", "temperature", "learning_rate"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} is {getattr(self, name)}, a positive number is needed")
        self.controllers()

    def controllers(self) -> Controllers:
        """Return what steers the run, in its initial state.

        Raises:
            ValueError: If a setting is out of range.
        """
        steered = self.band != (0.0, 1.0)
        target, cold = self.entropy_target, self.temperature_floor
        return Controllers(
            floors=RewardFloors(self.floors) if self.floors else None,
            band=DiversityBand(*self.band, value=self.lambda_d) if steered else None,
            entropy=EntropyTarget(target, self.entropy) if target else None,
            temperature=TemperatureSchedule(self.temperature, cold, self.steps) if cold else None,
        )


def dump_config(config: TrainingConfig, out: Path) -> None:
    """Write ``config.json``."""
    (out / "config.json").write_text(json.dumps(asdict(config), indent=2) + "\n", encoding="utf-8")


def load_config(out: Path) -> TrainingConfig:
    """Return the configuration of a run.

    Raises:
        ValueError: If the folder holds none, or one that is not allowed.
    """
    file = out / "config.json"
    if not file.is_file():
        raise ValueError(f"{out}: no config.json, so this is not the folder of a run")
    try:
        return TrainingConfig(**json.loads(file.read_text(encoding="utf-8")))
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file}: {error}") from error


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a JSONL file; none if it is missing, and no line cut by a crash."""
    if not file.is_file():
        return []
    lines = file.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def append_row(file: Path, row: dict[str, Any]) -> None:
    """Write one line; no NaN, for JSON has none."""
    with file.open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(row, allow_nan=False) + "\n")


def keep_until(file: Path, step: int) -> None:
    """Drop the rows that a killed run wrote after its last checkpoint."""
    rows = [row for row in read_rows(file) if row["step"] <= step]
    if file.is_file():
        draft = file.with_suffix(".tmp")
        draft.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        draft.replace(file)


def last_report(out: Path) -> Report:
    """Return what the last step of a run says.

    Raises:
        ValueError: If no step was taken.
    """
    rows = read_rows(out / "steps.jsonl")
    if not rows:
        raise ValueError(f"{out}: no step was taken yet")
    return judge(rows[-1]["measures"], [row["measures"] for row in rows[:-1]])
