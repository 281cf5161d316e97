"""The ``evolve`` command: thin verbs over the library, one line for every error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from evolve.errors import EvolveError

if TYPE_CHECKING:
    from rich.console import Console

    from evolve.config import Config
    from evolve.progress import ConsoleObserver

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Evolutionary program search whose policy learns from its own archive.",
)
sandbox_app = typer.Typer(no_args_is_help=True, help="Look at the isolation of candidates.")
app.add_typer(sandbox_app, name="sandbox")

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A shipped task's name or a folder.")]


def main() -> NoReturn:
    """Run the command line; a known error is one line on standard error and its exit code."""
    try:
        app(standalone_mode=True)
    except EvolveError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        sys.exit(error.exit_code)
    sys.exit(0)


@app.command()
def run(
    task: TaskName,
    evaluator: Annotated[
        Path | None, typer.Argument(metavar="[EVALUATOR]", help="With --openevolve alone.")
    ] = None,
    openevolve: Annotated[
        bool,
        typer.Option(
            "--openevolve", help="TASK is an initial program and EVALUATOR its evaluator."
        ),
    ] = False,
    minimise: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC", help="A metric of EVALUATOR of which less is better."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="A TOML file, see config.toml of a run; with --openevolve its config.yaml.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Lay a value over it, repeatable."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="pocket, mutate, smollm2, hf:NAME_OR_PATH or openai:MODEL.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="The server of openai:MODEL, http://HOST/v1.")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(help="A run, or its responses.jsonl, that answers instead of the server."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    evaluations: Annotated[
        int | None, typer.Option(min=1, help="Candidates to evaluate in all.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Evaluating processes.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder, else one under runs/.")] = None,
    allow_unsafe: Annotated[
        bool, typer.Option(help="Run candidates even where they cannot be isolated.")
    ] = False,
) -> None:
    """Start a campaign; Ctrl-C ends it cleanly, `evolve resume` goes on."""
    from evolve.config import load_config
    from evolve.launch import new_folder, start
    from evolve.task import load_task, task_folders

    layers = list(settings or [])
    layers += [
        f"{field}={value!r}" if isinstance(value, int) else f"{field}={value}"
        for field, value in (
            ("policy.name", policy),
            ("server.base_url", base_url),
            ("server.replay", replay and str(replay.resolve())),
            ("budget.evaluations", evaluations),
            ("sandbox.workers", workers),
            ("sandbox.min_tier", "D" if allow_unsafe else None),
        )
        if value is not None
    ]
    if openevolve != (evaluator is not None):
        raise typer.BadParameter("--openevolve takes two files, INITIAL_PROGRAM and EVALUATOR")
    if evaluator is not None:
        settled, folder, go = _open_pair(Path(task), evaluator, config, layers, seed, out, minimise)
    else:
        name = task if task in task_folders() else str(load_task(task).folder)
        settled = load_config(config, layers, task=name, seed=seed)
        folder, go = out or new_folder(settled, Path("runs")), start
    if allow_unsafe:
        _console().print(
            "--allow-unsafe: where they cannot be isolated, model-written programs may read, write "
            "and connect as you can",
            style="bold red",
        )
    _drive(lambda observer: go(settled, folder, observer), folder)


@app.command()
def resume(folder: RunFolder) -> None:
    """Go on with a campaign that was stopped or killed."""
    from evolve.launch import resume as resume_run

    _drive(lambda observer: resume_run(folder, observer), folder)


@app.command()
def show(
    folder: RunFolder,
    program: Annotated[
        int | None, typer.Argument(help="Program id; the best one by default.")
    ] = None,
) -> None:
    """Show a program of a run with its rewards and its ancestry."""
    from evolve.lineage import best_program
    from evolve.showing import program_lines
    from evolve.store import Store

    with Store(folder) as store:
        for line in program_lines(store, best_program(store) if program is None else program):
            typer.echo(line)


@app.command()
def plot(
    folder: RunFolder,
    out: Annotated[Path | None, typer.Option(help="Where to, else RUN/plots.")] = None,
    gif: Annotated[bool, typer.Option("--gif", help="Animate the archive filling, too.")] = False,
) -> None:
    """Draw the archive, the curves, the rewards and the lineage of the best program."""
    from evolve.plots import animate_run, plot_run

    place = out or folder / "plots"
    for path in plot_run(folder, place):
        typer.echo(str(path))
    if gif:
        typer.echo(str(animate_run(folder, place)))


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("comparison"),
) -> None:
    """Compare runs of one task that differ in more than the seed, over the same budget."""
    from evolve.compare import compare_runs, table_lines
    from evolve.plots import plot_comparison

    comparison = compare_runs(folders)
    for line in table_lines(comparison):
        typer.echo(line)
    for path in plot_comparison(comparison, out):
        typer.echo(str(path))


@app.command()
def export(
    folder: RunFolder,
    out: Annotated[Path | None, typer.Option(help="Where to, else RUN/export.")] = None,
) -> None:
    """Write programs, rewards and training groups as JSON lines, the archive for pyribs."""
    from evolve.export import export_run

    export_run(folder, out or folder / "export", typer.echo)


@app.command()
def report(
    folder: RunFolder,
    out: Annotated[Path | None, typer.Option(help="The file, else RUN/report.html.")] = None,
) -> None:
    """Write a run as one HTML file to send to somebody: pictures, best program, ancestry."""
    from evolve.report import write_report

    path = out or folder / "report.html"
    write_report(folder, path)
    typer.echo(str(path))


@app.command(name="ls")
def list_runs(
    root: Annotated[Path, typer.Argument(help="Folder with runs somewhere below it.")] = Path(
        "runs"
    ),
) -> None:
    """List the runs below a folder."""
    from evolve.showing import run_lines

    for line in run_lines(root):
        typer.echo(line)


@app.command()
def new(name: Annotated[str, typer.Argument(metavar="NAME", help="Folder to make.")]) -> None:
    """Write the skeleton of a task that runs as it is."""
    from evolve.scaffold import write_task

    for path in write_task(Path(name)):
        typer.echo(str(path))


@app.command()
def check(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="A shipped task's name or a folder.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Check every shipped task.")] = False,
    allow_unsafe: Annotated[
        bool, typer.Option(help="Run programs even where they cannot be isolated.")
    ] = False,
) -> None:
    """Run a task's starting program and say what its judge sees, or what is wrong."""
    from evolve.check import check_task, report_lines
    from evolve.task import load_task

    if (task is None) != every:
        raise typer.BadParameter("name a task, or give --all")
    tier = "D" if allow_unsafe else "B"
    if task is None:
        _check_all(tier)
        return
    for line in report_lines(check_task(load_task(task), min_tier=tier)):
        typer.echo(line)


@app.command()
def tasks() -> None:
    """List the tasks that ship with the toolkit."""
    from evolve.showing import task_lines

    for line in task_lines():
        typer.echo(line)


@sandbox_app.command(name="check")
def sandbox_check() -> None:
    """Probe the isolation that this machine gives, and attack it a little."""
    from evolve.sandbox import quick_check

    for line in quick_check():
        typer.echo(line)


def _check_all(tier: str) -> None:
    import time

    from evolve.check import check_each, report_lines
    from evolve.task import task_folders

    names, failed, warned, started = list(task_folders()), 0, 0, time.monotonic()
    for number, (name, report) in enumerate(check_each(names, min_tier=tier), start=1):
        typer.echo(f"[{number}/{len(names)}, {time.monotonic() - started:.0f} s]")
        if isinstance(report, EvolveError):
            failed += 1
            typer.echo(f"{name}: {' '.join(str(report).split())}")
            continue
        warned += bool(report.warnings)
        for line in report_lines(report):
            typer.echo(line)
    took = f"{time.monotonic() - started:.0f} s"
    typer.echo(f"{len(names) - failed} of {len(names)} tasks ok, {warned} with warnings, {took}")
    if failed:
        raise typer.Exit(2)


def _open_pair(
    initial: Path,
    evaluator: Path,
    config: Path | None,
    layers: list[str],
    seed: int | None,
    out: Path | None,
    minimise: list[str] | None,
) -> tuple[Config, Path, Callable[..., object]]:
    from evolve.launch import start
    from evolve.openevolve import discard, prepare

    settled, folder, notes = prepare(initial, evaluator, config, layers, seed, out, minimise or [])
    for note in notes:
        typer.echo(note)

    def go(config: Config, folder: Path, observer: ConsoleObserver) -> object:
        try:
            return start(config, folder, observer)
        finally:
            discard(folder)

    return settled, folder, go


def _console() -> Console:
    from rich.console import Console

    return Console()


def _drive(go: Callable[[ConsoleObserver], object], folder: Path) -> None:
    from evolve.progress import ConsoleObserver
    from evolve.showing import outcome_lines
    from evolve.store import Store

    console = _console()
    try:
        with ConsoleObserver(console) as observer:
            go(observer)
    except KeyboardInterrupt:
        begun = (folder / "run.db").is_file()
        then = f"go on with: evolve resume {folder}" if begun else "nothing has begun"
        typer.echo(f"interrupted; {then}", err=True)
        raise typer.Exit(130) from None
    with Store(folder) as store:
        lines = list(outcome_lines(store))
    for line in [*observer.summary(), *lines]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if not observer.summary() and not observer.interrupted:
        text = f"the budget is used up; to go on, raise it in {folder / 'config.toml'}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        if (folder / "plots").is_dir():
            return
    from evolve.plots import plot_run

    for path in plot_run(folder, folder / "plots"):
        console.print(str(path), markup=False, highlight=False, soft_wrap=True)
    if observer.interrupted:
        console.print(f"stopped; go on with: evolve resume {folder}", markup=False, soft_wrap=True)
        raise typer.Exit(130)
