"""Runs of two processes × four devices: killed and resumed, loaded elsewhere, damaged."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.io import FileError
from tests.distributed.xla.jobs import LoopbackJob
from tests.distributed.xla.killed_runs import experiment

# Every element is its place in the array, so that a piece in the wrong place is seen.
MODEL = """
from pathlib import Path
path = Path(sys.argv[1]) / "run.safetensors"
def model(sharding, **axes):
    made = gw.nn.Linear(8, 16)
    gw.distribute(made, gw.Mesh(**axes), sharding)
    return made, gw.optim.SGD(made.parameters(), lr=0.25, momentum=0.9)
"""
SAVE = (
    MODEL
    + """
made, optimizer = model({"weight": ("data", "model")}, data=4, model=2)
with gw.no_grad():
    made.weight.copy_(gw.distribute(gw.arange(128.0).reshape(16, 8), made.weight.device))
    made.bias.copy_(gw.distribute(gw.arange(16.0), made.weight.device))
made.weight.grad = made.weight.detach() * 2
made.bias.grad = made.bias.detach() * 2
optimizer.step()
gw.manual_seed(rank)
gw.save_run(path, model=made, optimizer=optimizer, step=7)
print(gw.rand(3).tolist())
"""
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("saved")
    return folder, LoopbackJob(SAVE, 2, 4, (folder,)).succeed()


def expected() -> dict[str, Any]:
    """What SAVE saved: one step of SGD."""
    weight, bias = np.arange(128.0).reshape(16, 8), np.arange(16.0)
    return {
        "weight": weight - 0.25 * 2 * weight,
        "bias": bias - 0.25 * 2 * bias,
        "momentum": 2 * weight,
    }


def test_a_run_of_many_is_loaded_on_one_cpu(saved: Any) -> None:
    folder, _ = saved
    made = gw.nn.Linear(8, 16)
    optimizer = gw.optim.SGD(made.parameters(), lr=0.1, momentum=0.9)
    assert gw.load_run(folder / "run.safetensors", model=made, optimizer=optimizer) == {"step": 7}
    wanted = expected()
    assert np.array_equal(made.weight.detach().numpy(), wanted["weight"])
    assert np.array_equal(made.bias.detach().numpy(), wanted["bias"])
    kept = optimizer.state_dict()
    assert kept["param_groups"][0]["lr"] == 0.25
    assert np.array_equal(kept["state"][0]["momentum_buffer"].numpy(), wanted["momentum"])


def test_a_run_of_many_is_loaded_on_a_mesh_of_one_process(saved: Any) -> None:
    folder, _ = saved
    made = gw.nn.Linear(8, 16)
    mesh = gw.Mesh(data=8)
    gw.distribute(made, mesh, {"weight": (None, "data")})
    optimizer = gw.optim.SGD(made.parameters(), lr=0.1, momentum=0.9)
    gw.load_run(folder / "run.safetensors", model=made, optimizer=optimizer)
    momentum = optimizer.state_dict()["state"][0]["momentum_buffer"]
    assert gw.distributed.sharding_of(made.weight) == (None, "data")
    assert gw.distributed.sharding_of(momentum) == (None, "data") and momentum.device == mesh
    assert np.array_equal(made.weight.detach().cpu().numpy(), expected()["weight"])
    assert np.array_equal(momentum.cpu().numpy(), expected()["momentum"])


def test_another_mesh_reads_the_pieces_it_needs_and_ranks_keep_their_own_state(saved: Any) -> None:
    folder, printed = saved
    job = LoopbackJob(
        MODEL
        + """
from gradwalk.io.shards import Shards
read = []
piece = Shards._piece
Shards._piece = lambda self, *args: (read.append(args), piece(self, *args))[1]
made, optimizer = model({"weight": (("data", "model"),)}, data=2, model=4)
gw.load_run(path, model=made, optimizer=optimizer)
print(gw.rand(3).tolist())
print(sorted({args[0].start for args in read if args[1] == "model.weight"}))
momentum = optimizer.state_dict()["state"][0]["momentum_buffer"]
print(gw.distributed.sharding_of(momentum)[0])
whole = gw.distribute([made.weight.detach(), made.bias.detach(), momentum], momentum.device)
import numpy as np
np.savez(path.parent / f"{rank}.npz", *[w.cpu().numpy() for w in whole])
""",
        2,
        4,
        (folder,),
    )
    for rank, text in enumerate(job.succeed()):
        drawn, read, sharding = text.splitlines()
        assert drawn == printed[rank].splitlines()[-1]
        rows = [(0, 4), (8, 12)][rank]
        assert read == str([(row, column) for row in rows for column in (0, 4)])
        assert sharding == "('data', 'model')"
        with np.load(folder / f"{rank}.npz") as found:
            for name, key in zip(("weight", "bias", "momentum"), found.files, strict=True):
                assert np.array_equal(found[key], expected()[name]), name


def test_shards_that_are_missing_or_damaged_are_named(saved: Any) -> None:
    folder, _ = saved
    path = folder / "run.safetensors"
    for file in sorted((folder / "run.safetensors.shards").iterdir()):
        content = file.read_bytes()
        changes = {
            "is missing": None,
            "bytes, not": content[:-1],
            "does not match its checksum": content[:-3] + bytes([content[-3] ^ 1]) + content[-2:],
            "header does not match": content[:20] + b" " + content[21:],
        }
        for complaint, change in changes.items():
            file.unlink()
            if change is not None:
                file.write_bytes(change)
            made = gw.nn.Linear(8, 16)
            before = made.weight.tolist()
            with pytest.raises(FileError, match=complaint) as error:
                gw.load_run(path, model=made, optimizer=gw.optim.SGD(made.parameters()))
            assert str(path) in str(error.value) and file.name in str(error.value)
            assert made.weight.tolist() == before
            file.write_bytes(content)


def test_a_rank_that_cannot_write_fails_the_save_of_all(tmp_path: Path) -> None:
    job = LoopbackJob(
        MODEL
        + """
made, optimizer = model({"weight": ("data", "model")}, data=4, model=2)
gw.save_run(path, model=made, step=1)
import gradwalk.io.training_run as run
if rank == 1:
    def full(*args):
        raise OSError(28, "No space left on device")
    run.write_pieces = full
try:
    gw.save_run(path, model=made, step=2)
except (OSError, ValueError) as error:
    print(error)
print(gw.load_run(path, model=made))
""",
        2,
        4,
        (tmp_path,),
    )
    first, second = job.succeed()
    assert "rank 1 failed, so nothing was changed" in first and "No space left" in second
    assert first.splitlines()[-1] == second.splitlines()[-1] == "{'step': 1}"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_killed_and_resumed(tmp_path: Path) -> None:
    experiment(tmp_path, kills=2, seed=time.time())  # other moments every time
