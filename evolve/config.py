"""The configuration of a run: one frozen tree, complete, checked and written back as TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evolve.errors import ConfigError

Positive = Annotated[int, Field(ge=1)]
#: Of a round, which is prepared as a whole: more is a slip of the pen.
PerRound = Annotated[int, Field(ge=1, le=4096)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
#: The estimators of ``vpo.advantages``, named here since a configuration is read without torch.
Method = Literal[
    "vpo",
    "vpo_iid",
    "grpo",
    "dr_grpo",
    "rloo",
    "gdpo",
    "maxrl",
    "max_at_k",
    "multi_rlvr",
    "entropic",
]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Budget(_Section):
    """When a run ends: at whichever bound is reached first."""

    #: Candidates evaluated in the sandbox, the starting program not counted.
    evaluations: Annotated[int, Field(ge=1, le=10**9)] = 2000
    #: Wall-clock seconds over all sessions of the run; checked between rounds.
    wall_s: PositiveFloat | None = None
    #: Tokens of prompts and completions that a server counts; checked between rounds, so that a
    #: run uses up to one round more.
    tokens: Positive | None = None
    #: The same for what they cost, in the currency of the server's prices.
    cost: PositiveFloat | None = None


class Search(_Section):
    """How a round is made and what the archive keeps."""

    #: Prompts in a round; each shows one parent.
    prompts: PerRound = 16
    #: Rollouts (completions) of each prompt: the group size of the policy update.
    rollouts: PerRound = 8
    #: Answers asked for in one completion.
    answers: PerRound = 3
    #: Programs from other cells offered to the policy beside the parent.
    inspirations: Count = 1
    #: Sub-populations with the same cells; they exchange champions.
    islands: Positive = 1
    #: Rounds between two exchanges.
    migrate_every: Positive = 5
    #: Weight vectors drawn from Dir(alpha) for the champions of a cell.
    bank: Count = 32
    #: Concentration of the Dirichlet law, shared by archive, selection and training.
    alpha: PositiveFloat = 1.0
    #: Cells: the grid of the task's bins, or a centroidal Voronoi tessellation.
    cells: Literal["grid", "cvt"] = "grid"
    #: Number of cells of the tessellation; a grid takes its bins from the task.
    cvt_cells: Positive = 256
    #: Shares of the three parent selections; they are normalised.
    dirichlet: Share = 0.5
    lexicase: Share = 0.3
    uniform: Share = 0.2


class PolicyConfig(_Section):
    """Who proposes the edits."""

    #: ``pocket``, ``mutate``, ``smollm2``, ``hf:NAME_OR_PATH`` or ``openai:MODEL``.
    name: str = "pocket"
    #: Sampling temperature.
    temperature: PositiveFloat = 1.0
    #: Tokens in one completion at most.
    max_new_tokens: Positive = 160
    #: Rank of the LoRA adapters.
    lora_rank: Positive = 16


class Training(_Section):
    """How the policy learns from the rewards of its own rollouts."""

    #: Rounds between two updates; 0 leaves the policy frozen.
    every: Count = 2
    #: Advantage estimator, see ``vpo.advantages``.
    method: Method = "vpo"
    #: One advantage a rollout (as published), or the reward-to-go of each answer.
    credit: Literal["rollout", "prefix"] = "prefix"
    #: Judge a set of answers by its gain over the parents in the prompt.
    gain: bool = True
    #: Share of the plain set utility mixed into the gain, so that failing groups still rank.
    shaping: Share = 0.1
    #: Step size of AdamW.
    learning_rate: PositiveFloat = 1e-3
    #: Passes over the rollouts in one update.
    epochs: Positive = 1
    #: Rollouts in one optimiser step.
    batch: Positive = 64
    #: Weight of the divergence from the initial policy.
    kl: Annotated[float, Field(ge=0.0)] = 1e-2


class ServerConfig(_Section):
    """The server of a policy ``openai:MODEL``. The key is not here: see ``key_file``."""

    #: Where it answers, for example ``http://localhost:8000/v1``.
    base_url: str = ""
    #: A file with the key; without one it is read from the environment, OPENAI_API_KEY.
    key_file: str = ""
    #: A run folder or an exported ``responses.jsonl`` that answers instead of the server.
    replay: str = ""
    #: The form in which edits are asked for.
    form: Literal["search_replace", "block", "line"] = "search_replace"
    #: Tokens in one completion at most; ``policy.max_new_tokens`` is for models in this process.
    max_tokens: Positive = 4096
    #: The name under which the server takes that limit.
    length_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    #: Send a seed with each request; some servers refuse it.
    send_seed: bool = True
    #: Ask for log-probabilities; some models refuse it.
    logprobs: bool = True
    #: Requests on their way at once.
    concurrency: Positive = 8
    #: Seconds in which a connection must be made.
    connect_s: PositiveFloat = 10.0
    #: Seconds in which a whole answer must have arrived.
    timeout_s: PositiveFloat = 600.0
    #: Failed tries after which the run says that it waits for the server.
    retries: Count = 6
    #: Seconds before the first retry; doubled each time, less up to half by chance.
    first_wait_s: PositiveFloat = 1.0
    #: The longest of these waits, also where the server asks for more.
    longest_wait_s: PositiveFloat = 60.0
    #: Seconds without an answer to a request after which the run ends; it can be resumed.
    patience_s: PositiveFloat = 3600.0
    #: Price of a million tokens of prompts.
    prompt_price: Annotated[float, Field(ge=0.0)] = 0.0
    #: Price of a million tokens of completions.
    completion_price: Annotated[float, Field(ge=0.0)] = 0.0


class SandboxConfig(_Section):
    """Where candidates run."""

    #: Processes that evaluate candidates.
    workers: Positive = 2
    #: Weakest isolation that the run accepts, ``A`` (strongest) to ``D``.
    min_tier: Literal["A", "B", "C", "D"] = "B"


class Config(_Section):
    """Everything that a run depends on beside the versions of the code."""

    task: str
    seed: Count = 0
    budget: Budget = Budget()
    search: Search = Search()
    policy: PolicyConfig = PolicyConfig()
    training: Training = Training()
    sandbox: SandboxConfig = SandboxConfig()
    server: ServerConfig = ServerConfig()


def load_config(path: Path | None, settings: Iterable[str] = (), **top: Any) -> Config:
    """Return the configuration of a TOML file with ``settings`` laid over it.

    Args:
        path: The file, or None for the defaults.
        settings: Strings like ``search.prompts=8``; the value is read as TOML, else as text.
        top: Top-level fields that win over the file when not None.

    Raises:
        ConfigError: One line with the file, the field, the value and what is allowed.
    """
    tree: dict[str, Any] = {}
    origin = "configuration"
    if path is not None:
        origin = str(path)
        tree = _read_toml(path)
    for setting in settings:
        _lay_over(tree, setting)
    tree.update({key: value for key, value in top.items() if value is not None})
    return _validate(tree, origin)


def dump_config(config: Config) -> str:
    """Return the configuration as TOML that :func:`load_config` reads back to an equal object."""
    tree = config.model_dump(mode="json")
    sections = {key: value for key, value in tree.items() if isinstance(value, dict)}
    lines = [_assign(key, value) for key, value in tree.items() if key not in sections]
    for name, fields in sections.items():
        lines += ["", f"[{name}]"]
        lines += [_assign(key, value) for key, value in fields.items() if value is not None]
    return "\n".join(lines) + "\n"


def _assign(key: str, value: object) -> str:
    # JSON scalars are TOML scalars, but TOML has no surrogate pairs and refuses a bare DEL.
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"{key} = {text}"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError):
        raise ConfigError(f"{path}: no such configuration file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _lay_over(tree: dict[str, Any], setting: str) -> None:
    key, sign, text = setting.partition("=")
    if not sign or not key.strip():
        raise ConfigError(f"--set {setting!r}: a field and a value like search.prompts=8 is needed")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *sections, leaf = key.strip().split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {setting!r}: {section!r} is a value, not a section")
    tree[leaf] = value


def _validate(tree: dict[str, Any], origin: str) -> Config:
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise ConfigError(
                f"{origin}: unknown field {field!r}; allowed there: {_siblings(first['loc'])}"
            ) from None
        if first["type"] == "missing":
            raise ConfigError(f"{origin}: field {field!r} is missing") from None
        raise ConfigError(
            f"{origin}: {field} = {first['input']!r}: {first['msg'][0].lower()}{first['msg'][1:]}"
        ) from None


def _siblings(location: tuple[int | str, ...]) -> str:
    model: type[BaseModel] = Config
    for part in location[:-1]:
        annotation = model.model_fields[str(part)].annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            model = annotation
    return ", ".join(model.model_fields)
