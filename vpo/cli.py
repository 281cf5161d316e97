"""The ``vpo`` command: train a policy on a task, outside any campaign."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from vpo.runs import TrainingConfig

Made = TypeVar("Made")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Vector Policy Optimization: train a language model on reward vectors.",
)
RunFolder = Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a run.")]


def main() -> NoReturn:
    """Run the command line."""
    app()
    sys.exit(0)


@app.command()
def new(folder: Annotated[Path, typer.Argument(help="Where to write the task.")]) -> None:
    """Write an example task that runs as it is, to be replaced by yours."""
    from vpo.scaffold import write_example

    for file in _checked(lambda: write_example(folder)):
        typer.echo(str(file))


@app.command()
def train(
    task: Annotated[
        Path, typer.Option(help="Folder of the task: prompts.jsonl and reward.py, see vpo.task.")
    ],
    policy: Annotated[str, typer.Option(help="hf:NAME_OR_PATH, or a registered name.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; must not exist or be empty.")],
    method: Annotated[str, typer.Option(help="vpo, grpo, max_at_k, ... (vpo.advantages).")] = "vpo",
    credit: Annotated[str, typer.Option(help="rollout, prefix or loo.")] = "rollout",
    alpha: Annotated[float, typer.Option(help="Concentration of the weights.")] = 1.0,
    lambda_d: Annotated[float, typer.Option(help="Weight of the specialisation gain.")] = 1.0,
    steps: Annotated[int, typer.Option(help="Updates in all.")] = 100,
    prompts: Annotated[int, typer.Option(help="Prompts of a step.")] = 8,
    group_size: Annotated[int, typer.Option(help="Completions of a prompt.")] = 8,
    answers: Annotated[int, typer.Option(help="Answers that count in a completion.")] = 3,
    max_new_tokens: Annotated[int, typer.Option(help="Longest completion.")] = 256,
    temperature: Annotated[float, typer.Option(help="Of sampling.")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="Of AdamW.")] = 1e-5,
    lora_rank: Annotated[int, typer.Option(help="Of the adapter; 0 trains all weights.")] = 16,
    kl: Annotated[float, typer.Option(help="Weight of the KL to the initial policy.")] = 1e-3,
    entropy: Annotated[float, typer.Option(help="Weight of the entropy.")] = 0.0,
    entropy_target: Annotated[float, typer.Option(help="Nats a token; 0: none.")] = 0.0,
    temperature_floor: Annotated[float, typer.Option(help="At the last step; 0: none.")] = 0.0,
    floors: Annotated[
        list[float] | None, typer.Option(help="Least mean reward, once for each reward.")
    ] = None,
    band: Annotated[
        tuple[float, float], typer.Option(help="Share D / R that lambda_d is steered to.")
    ] = (0.0, 1.0),
    token_budget: Annotated[int, typer.Option(help="Tokens of a micro-batch.")] = 8192,
    evaluate_every: Annotated[int, typer.Option(help="Steps between evaluations.")] = 10,
    evaluation_rollouts: Annotated[int, typer.Option(help="Completions of each prompt.")] = 16,
    evaluation_prompts: Annotated[int, typer.Option(help="Held-out prompts, at most.")] = 64,
    save_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 10,
    seed: Annotated[int, typer.Option(help="Of everything.")] = 0,
) -> None:
    """Train a policy on a task and evaluate it; `vpo resume OUT` goes on after a stop."""
    given = locals()
    config = _checked(lambda: _config(given, out))
    _run(config, out, fresh=True)


@app.command()
def resume(out: RunFolder) -> None:
    """Go on with a run from its last checkpoint."""
    from vpo.runs import load_config

    _run(_checked(lambda: load_config(out)), out, fresh=False)


@app.command()
def plot(out: RunFolder) -> None:
    """Draw the curves of a run."""
    from vpo.curves import plot as draw

    for file in _checked(lambda: draw(out)):
        typer.echo(str(file))


@app.command()
def report(out: RunFolder) -> None:
    """Say what the last step of a run shows, and what to change."""
    from vpo.runs import last_report

    typer.echo(str(_checked(lambda: last_report(out))))


def _config(given: dict[str, Any], out: Path) -> TrainingConfig:
    from vpo.runs import TrainingConfig

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is there already; choose another --out, or `vpo resume {out}`")
    values = {entry.name: given[entry.name] for entry in fields(TrainingConfig)}
    values |= {"task": str(given["task"].resolve()), "floors": tuple(given["floors"] or ())}
    return TrainingConfig(**values)


def _run(config: TrainingConfig, out: Path, *, fresh: bool) -> None:
    from vpo.curves import plot as draw
    from vpo.runs import dump_config, read_rows
    from vpo.task import TaskError, open_task
    from vpo.training import Training

    task = _checked(
        lambda: open_task(Path(config.task), config.policy, config.answers, config.seed)
    )
    try:
        model, tokenizer = _checked(lambda: _open_policy(config))
        training = _checked(lambda: Training(config, task, model, tokenizer, out))
        if fresh:
            out.mkdir(parents=True, exist_ok=True)
            dump_config(config, out)
        else:
            _checked(training.restore)
            typer.echo(f"{out} goes on after step {training.step} of {config.steps}")
        try:
            training.run(typer.echo)
        except TaskError as error:
            if fresh and not read_rows(out / "steps.jsonl"):
                # Nothing to go on from, and the same command must not be refused for its folder.
                shutil.rmtree(out)
            _fail(error)
        except KeyboardInterrupt:
            text = f"interrupted; go on from the last checkpoint with: vpo resume {out}"
            typer.echo(text, err=True)
            raise typer.Exit(130) from None
    finally:
        task.close()
    for file in draw(out):
        typer.echo(str(file))


def _open_policy(config: TrainingConfig) -> tuple[Any, Any]:
    import torch
    from transformers.utils.logging import disable_progress_bar

    from vpo.model import load_policy

    disable_progress_bar()  # type: ignore[no-untyped-call]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    # Frozen weights are kept in bfloat16 on a GPU, trained ones in float32.
    dtype = torch.bfloat16 if device == "cuda" and config.lora_rank else torch.float32
    name = config.policy
    if name.startswith("hf:"):
        return load_policy(name.removeprefix("hf:"), dtype=dtype, device=device)
    known = {plugin.name: plugin for plugin in entry_points(group="vpo.policies")}
    if name not in known:
        allowed = ", ".join(["hf:NAME_OR_PATH", *sorted(known)])
        raise ValueError(f"policy is {name!r}, allowed: {allowed}")
    try:
        folder = known[name].load()()
    except Exception as error:
        raise ValueError(str(error)) from error
    return load_policy(folder, dtype=dtype, device=device)


def _checked(make: Callable[[], Made]) -> Made:
    """Return what ``make`` returns; bad input ends the program with one line."""
    try:
        return make()
    except (ValueError, OSError) as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    typer.echo(f"error: {' '.join(str(error).split())}", err=True)
    raise typer.Exit(2)
