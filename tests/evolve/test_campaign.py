"""A campaign ends the same whatever the number of workers; for killed ones see ``test_faults``."""

import signal
import time

import pytest

from evolve.config import load_config
from evolve.state import restore_state
from evolve.store import Store
from evolve.task import load_task
from tests.evolve.conftest import Command, write_toy_task

SMALL = ("--set", "search.prompts=6", "--set", "search.rollouts=2", "--policy", "mutate")


def state_of(folder):
    config = load_config(folder / "config.toml")
    with Store(folder) as store:
        return restore_state(store, load_task(config.task), config.search, config.seed)


def digest(folder):
    return [archive.digest() for archive in state_of(folder).islands]


def evaluated(folder):
    with Store(folder) as store:
        return {record.candidate for record in store.evaluations()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    place = tmp_path_factory.mktemp("undisturbed")
    task, folder = write_toy_task(place), place / "run"
    Command(pictures=False)(
        "run", task, *SMALL, "--evaluations", 150, "--workers", 1, "--out", folder
    )
    return folder


def test_one_and_two_workers_give_the_same_archive(undisturbed, toy_task, plain_command, tmp_path):
    folder = tmp_path / "two"
    plain_command("run", toy_task, *SMALL, "--evaluations", 150, "--workers", 2, "--out", folder)
    assert digest(folder) == digest(undisturbed)
    assert evaluated(folder) == evaluated(undisturbed)


def test_another_seed_gives_another_archive(undisturbed, toy_task, plain_command, tmp_path):
    folder = tmp_path / "other"
    plain_command("run", toy_task, *SMALL, "--evaluations", 150, "--seed", 1, "--out", folder)
    assert digest(folder) != digest(undisturbed)


def test_the_budget_is_met_exactly_and_the_best_program_is_better(undisturbed):
    assert len(evaluated(undisturbed)) == 150 + 1
    state = state_of(undisturbed)
    best, seed = state.best(), state.programs[0]
    assert sum(best.rewards) > sum(seed.rewards)


def test_ctrl_c_ends_cleanly_and_the_run_goes_on(undisturbed, toy_task, plain_command, tmp_path):
    folder = tmp_path / "stopped"
    process = plain_command.start(
        "run", toy_task, *SMALL, "--evaluations", 150, "--workers", 2, "--out", folder
    )
    while process.poll() is None and not (folder / "run.db").is_file():
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert f"evolve resume {folder}" in out.replace("\n", "")
    plain_command("resume", folder)
    assert digest(folder) == digest(undisturbed)


def test_a_second_campaign_on_the_same_folder_is_refused(undisturbed, toy_task, plain_command):
    with Store(undisturbed, "write"):
        refused = plain_command("resume", undisturbed, code=2)
    assert "another process is running this campaign" in refused.stderr
    refused = plain_command("run", toy_task, *SMALL, "--out", undisturbed, code=2)
    assert "holds a run already" in refused.stderr


def test_islands_exchange_champions(toy_task, plain_command, tmp_path):
    folder = tmp_path / "islands"
    islands = ("--set", "search.islands=2", "--set", "search.migrate_every=2")
    plain_command("run", toy_task, *SMALL, *islands, "--evaluations", 120, "--out", folder)
    state = state_of(folder)
    first, second = (set(archive.ids()) for archive in state.islands)
    assert (first & second) - {0}
