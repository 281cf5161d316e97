"""The set utility as the reward function of TRL's ``GRPOTrainer``.

    from vpo.integrations.trl import set_utility_reward

    trainer = GRPOTrainer(model, reward_funcs=set_utility_reward(judge), args=GRPOConfig(...), ...)

No hook for advantages is needed: what the paper (arXiv 2605.22817) does to R(S) is what TRL does to
any reward with ``scale_rewards="group"``, except that TRL divides by the unbiased standard
deviation plus 1e-4. Not covered, since TRL has no place for it: credit for single answers, gain
over references, leaving out groups that tie. Use :class:`vpo.trainer.Trainer` for these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vpo.expected import Scalarizer
from vpo.sets import Floats
from vpo.utility import set_utility

#: ``judge(prompts=..., completions=..., **columns)`` returns for each completion the (m, k) rewards
#: of its m answers, in [0, 1]; (0, k) where it holds none. ``columns`` are those of the data set,
#: one value for each completion, and ``completion_ids``.
Judge = Callable[..., Sequence[Floats]]


def set_utility_reward(
    judge: Judge,
    *,
    alpha: float = 1.0,
    lambda_b: float = 1.0,
    lambda_d: float = 1.0,
    scalarizer: Scalarizer = "linear",
    n_weights: int = 1024,
) -> Callable[..., list[float]]:
    """Return a reward function for TRL that is worth the set utility of a completion's answers.

    The nodes of the quadrature change from step to step and are the same on all processes, so they
    are equal within a group even where it is spread over several. Mean, best answer and
    specialisation gain go to TRL's log.

    Args:
        judge: See :data:`Judge`.
        alpha: See :func:`vpo.utility.set_utility`, like the rest.
        lambda_b: Weight of the best answer's lead.
        lambda_d: Weight of the specialisation gain.
        scalarizer: How rewards are weighed.
        n_weights: Nodes of the quadrature.
    """

    def set_utility_of_answers(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        trainer_state: Any = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Any = None,  # noqa: ARG001 - TRL passes it to every reward function
        **columns: Any,
    ) -> list[float]:
        rewards = judge(prompts=prompts, completions=completions, **columns)
        if len(rewards) != len(completions):
            raise ValueError(
                f"the judge returned {len(rewards)} matrices for {len(completions)} completions"
            )
        result = set_utility(
            list(rewards),
            alpha=alpha,
            lambda_b=lambda_b,
            lambda_d=lambda_d,
            scalarizer=scalarizer,
            n_weights=n_weights,
            seed=0 if trainer_state is None else trainer_state.global_step,
        )
        if log_metric is not None:
            log_metric("set_utility/mean", float(result.mean.mean()))
            log_metric("set_utility/best", float(result.best.mean()))
            log_metric("set_utility/specialisation", float(result.specialisation.mean()))
        values: list[float] = result.value.tolist()
        return values

    return set_utility_of_answers
