"""Two processes over gloo on the CPU against one."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.multiprocessing
from accelerate import PartialState

from tests.vpo.test_trainer import CONFIG, advantages_for, sampled
from tests.vpo.tiny import llama
from vpo.checkpoint import load_checkpoint, save_checkpoint
from vpo.model import attach_lora, load_version
from vpo.probe import largest_gap, model_scorer
from vpo.trainer import Trainer

CASES = {
    "replicas": (False, {}),
    "replicas with lora, step refused": (True, {"max_step_kl": 1e-9}),
    "sharded": (False, {"shard": True}),
    "sharded with lora": (True, {"shard": True}),
}
# The second process has fewer and shorter rollouts, and group 1 is spread over both.
SHARES = [slice(0, 7), slice(7, 10)]


def make(case, **more):
    lora, changes = CASES[case]
    model = attach_lora(llama(), rank=2, seed=0) if lora else llama()
    return Trainer(model, replace(CONFIG, token_budget=30, **(changes | more)), seed=5)


def batch():
    rollouts = sampled(llama(), drift=0.2)[:10]
    return rollouts, advantages_for(rollouts)


def work(rank: int, port: int, folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    state = PartialState(cpu=True)
    assert state.num_processes == 2
    rollouts, advantages = batch()
    mine = SHARES[rank]
    for case in CASES:
        trainer = make(case)
        first = trainer.update(rollouts[mine], advantages[mine])
        path = trainer.save(folder / case)
        halfway = trainer.state_dict()
        second = trainer.update(rollouts[mine], advantages[mine])
        resumed = make(case)
        resumed.load_state_dict(halfway)
        again = resumed.update(rollouts[mine], advantages[mine])
        assert again == replace(second, seconds=again.seconds)
        if rank == 0:
            assert path.is_dir()
            results = {"state": trainer.state_dict(), "first": vars(first), "second": vars(second)}
            save_checkpoint(results, folder / f"{case}.pt")
        else:
            trainer.state_dict()
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(work, (port, folder), nprocs=2)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_two_processes_make_the_update_of_one(folder, case):
    rollouts, advantages = batch()
    trainer = make(case, shard=False)
    first = trainer.update(rollouts, advantages)
    scores = model_scorer(trainer.model)
    probes = [[3, 4, 5, 6], [9] * 8]
    loaded = load_version(llama(), folder / case / f"v{int(first.accepted)}")
    assert largest_gap(scores, model_scorer(loaded), probes) < 1e-3
    second = trainer.update(rollouts, advantages)
    theirs = load_checkpoint(folder / f"{case}.pt")
    assert first.accepted == (case != "replicas with lora, step refused")
    for stats, other in ((first, theirs["first"]), (second, theirs["second"])):
        for name, value in vars(stats).items():
            # What a refusal says holds a measured number.
            if name not in ("seconds", "reason"):
                assert other[name] == pytest.approx(value, rel=1e-3, abs=1e-5, nan_ok=True), name
    state = trainer.state_dict()
    for name, value in state["weights"].items():
        torch.testing.assert_close(theirs["state"]["weights"][name], value, rtol=0, atol=5e-5)
    assert theirs["state"]["version"] == state["version"]
    moments = theirs["state"]["optimizer"]["state"]
    for index, own in state["optimizer"]["state"].items():
        np.testing.assert_allclose(moments[index]["exp_avg"], own["exp_avg"], atol=1e-5)
