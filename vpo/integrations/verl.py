"""The set utility as a custom reward function of veRL, and the settings of a run with it.

veRL (0.9) hands nothing but scalar scores to its advantage estimators, so R(S) is computed in the
reward function and the estimator is ``grpo``. A file of yours defines the function:

    # my_reward.py
    from vpo.integrations.verl import set_utility_score

    def judge(solution, ground_truth, extra_info):
        ...  # -> (m, k) rewards of the m answers in the text, in [0, 1]

    compute_score = set_utility_score(judge)

and :func:`overrides` returns what to pass to the trainer:

    python -m verl.trainer.main_ppo $(python -c "
    from vpo.integrations.verl import overrides
    print(*overrides('my_reward.py'))") data.train_files=... actor_rollout_ref.model.path=...

Not covered: credit for single answers, gain over references, leaving out groups that tie.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vpo.expected import Scalarizer
from vpo.sets import Floats
from vpo.utility import set_utility

#: ``judge(solution, ground_truth, extra_info)`` returns the (m, k) rewards of the answers in a
#: completion, in [0, 1]; (0, k) if it holds none.
Judge = Callable[[str, Any, dict[str, Any]], Floats]


def set_utility_score(
    judge: Judge,
    *,
    alpha: float = 1.0,
    lambda_b: float = 1.0,
    lambda_d: float = 1.0,
    scalarizer: Scalarizer = "linear",
    n_weights: int = 1024,
) -> Callable[..., dict[str, float]]:
    """Return a ``compute_score`` for veRL's ``reward.custom_reward_function``.

    veRL scores one completion at a time, in several processes; so the nodes of the quadrature are
    the same always, which keeps a group comparable.

    Args:
        judge: See :data:`Judge`.
        alpha: See :func:`vpo.utility.set_utility`, like the rest.
        lambda_b: Weight of the best answer's lead.
        lambda_d: Weight of the specialisation gain.
        scalarizer: How rewards are weighed.
        n_weights: Nodes of the quadrature.

    Returns:
        A function whose result holds the ``score`` and, for the log, ``mean``, ``best``,
        ``specialisation`` and ``answers``.
    """

    def compute_score(
        data_source: str,  # noqa: ARG001 - veRL passes it by name
        solution_str: str,
        ground_truth: Any,
        extra_info: dict[str, Any] | None = None,
        **_: Any,
    ) -> dict[str, float]:
        rewards = judge(solution_str, ground_truth, extra_info or {})
        result = set_utility(
            [rewards],
            alpha=alpha,
            lambda_b=lambda_b,
            lambda_d=lambda_d,
            scalarizer=scalarizer,
            n_weights=n_weights,
        )
        return {
            "score": float(result.value[0]),
            "mean": float(result.mean[0]),
            "best": float(result.best[0]),
            "specialisation": float(result.specialisation[0]),
            "answers": float(len(rewards)),
        }

    return compute_score


def overrides(
    reward_file: str | Path, *, function: str = "compute_score", group_size: int = 8
) -> list[str]:
    """Return the settings of a veRL run with the set utility, as Hydra overrides.

    They are those of the paper (arXiv 2605.22817): GRPO's group normalisation, PPO-clip 0.2 with
    dual clip 3, token mean, KL loss 1e-3, temperature 1; and the log-probabilities of the engine
    are corrected for, since it rarely computes what the trainer does.

    Args:
        reward_file: Python file that defines ``function``.
        function: Name of the reward function in it.
        group_size: Completions of each prompt.
    """
    settings = {
        "algorithm.adv_estimator": "grpo",
        "algorithm.norm_adv_by_std_in_grpo": True,
        "algorithm.use_kl_in_reward": False,
        "algorithm.rollout_correction.rollout_is": "token",
        "algorithm.rollout_correction.rollout_is_threshold": 2.0,
        "reward.custom_reward_function.path": reward_file,
        "reward.custom_reward_function.name": function,
        "actor_rollout_ref.rollout.n": group_size,
        "actor_rollout_ref.rollout.temperature": 1.0,
        "actor_rollout_ref.rollout.top_p": 1.0,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
        "actor_rollout_ref.actor.clip_ratio_low": 0.2,
        "actor_rollout_ref.actor.clip_ratio_high": 0.2,
        "actor_rollout_ref.actor.clip_ratio_c": 3.0,
        "actor_rollout_ref.actor.loss_agg_mode": "token-mean",
        "actor_rollout_ref.actor.use_kl_loss": True,
        "actor_rollout_ref.actor.kl_loss_type": "low_var_kl",
        "actor_rollout_ref.actor.kl_loss_coef": 0.001,
        "actor_rollout_ref.actor.ppo_epochs": 1,
        "actor_rollout_ref.actor.optim.lr": 1e-6,
    }
    return [f"{name}={value}" for name, value in settings.items()]
