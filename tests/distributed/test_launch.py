"""Which process this is, from the variables of launchers; no JAX, no network."""

from __future__ import annotations

import pytest

from gradwalk.distributed.launch import LaunchError, first_host, read_launch, visible_devices

TORCH = {
    "MASTER_ADDR": "host0", "MASTER_PORT": "1234", "RANK": "5", "WORLD_SIZE": "8",
    "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}  # fmt: skip
PMI = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
SLURM = {
    "SLURM_PROCID": "9", "SLURM_STEP_NUM_TASKS": "16", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "gpu[003-004]", "SLURM_JOB_ID": "4001",
}  # fmt: skip
KUBERNETES = {"JOB_COMPLETION_INDEX": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "job-0.net"}


@pytest.mark.parametrize(
    "environ, expected",
    [
        (TORCH, ("host0", 1234, 8, 5, 1, 4, "torchrun")),
        (TORCH | {"TORCHELASTIC_USE_AGENT_STORE": "True"},
         ("host0", 1235, 8, 5, 1, 4, "torchrun")),
        (OPEN_MPI, ("127.0.0.1", 29500, 2, 1, 1, 2, "Open MPI")),
        (OPEN_MPI | {"MASTER_ADDR": "a", "MASTER_PORT": "7"}, ("a", 7, 2, 1, 1, 2, "Open MPI")),
        (PMI | {"MASTER_ADDR": "a"}, ("a", 29500, 2, 1, 0, 1, "MPI (PMI)")),
        (SLURM, ("gpu003", 61441, 16, 9, 1, None, "SLURM")),
        # mpirun inside an allocation, and torchrun in each task, have the last word
        (SLURM | OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
         ("gpu003", 61441, 2, 1, 0, 1, "Open MPI")),
        (SLURM | TORCH, ("host0", 1234, 8, 5, 1, 4, "torchrun")),
        (KUBERNETES, ("job-0.net", 29500, 4, 2, None, None, "Kubernetes")),
        (KUBERNETES | {"RANK": "3"}, ("job-0.net", 29500, 4, 3, None, None, "torchrun")),
        ({}, ("127.0.0.1", 0, 1, 0, None, None, "")),
        ({"WORLD_SIZE": "1", "RANK": "0"}, ("127.0.0.1", 0, 1, 0, None, None, "torchrun")),
        ({"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}, ("127.0.0.1", 0, 1, 0, None, None, "")),
    ],
)  # fmt: skip
def test_the_usual_launchers(environ: dict[str, str], expected: tuple[object, ...]) -> None:
    assert tuple(read_launch(environ)) == expected


def test_arguments_count_before_variables() -> None:
    found = read_launch({}, "tcp://[::1]:99", world_size=3, rank=2)
    assert found[:4] == ("::1", 99, 3, 2)
    assert read_launch(TORCH, "b:1", world_size=6, rank=0)[:4] == ("b", 1, 6, 0)
    assert read_launch(TORCH, "b:1")[:4] == ("b", 1, 8, 5)


@pytest.mark.parametrize(
    "environ, arguments, named",
    [
        ({"RANK": "1"}, {}, r"RANK=1 is set, and WORLD_SIZE is not(.|\n)*Fix.*torchrun"),
        ({"WORLD_SIZE": "2"}, {}, r"WORLD_SIZE=2 is set, and RANK is not(.|\n)*Fix"),
        (TORCH | {"RANK": "8"}, {}, r"RANK=8 and WORLD_SIZE=8 contradict(.|\n)*torchrun"),
        (TORCH | {"RANK": "x"}, {}, "RANK='x' is not a whole number"),
        (TORCH | {"RANK": "-1"}, {}, "RANK='-1' is not a whole number from 0"),
        (TORCH | {"WORLD_SIZE": ""}, {}, "WORLD_SIZE='' is not a whole number"),
        (TORCH | {"WORLD_SIZE": "0"}, {}, "RANK=5 and WORLD_SIZE=0 contradict"),
        ({"WORLD_SIZE": "1", "RANK": "1"}, {}, "RANK=1 and WORLD_SIZE=1 contradict"),
        (TORCH | {"LOCAL_RANK": "4"}, {}, "LOCAL_RANK=4 is not below LOCAL_WORLD_SIZE=4"),
        (TORCH | {"MASTER_PORT": "70000"}, {}, "MASTER_PORT='70000' is not a port"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, {}, r"MASTER_ADDR is not set(.|\n)*MASTER_ADDR=host0"),
        (PMI, {}, r"MASTER_ADDR is not set(.|\n)*mpiexec"),
        ({"PMI_RANK": "0"}, {}, r"PMI_RANK=0 is set, and PMI_SIZE is not(.|\n)*mpiexec"),
        ({"JOB_COMPLETION_INDEX": "0"}, {}, r"and WORLD_SIZE is not(.|\n)*indexed Job"),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, {}, r"srun did not start(.|\n)*srun --ntasks"),
        ({}, {"rank": 1}, r"not given world_size(.|\n)*world_size=4"),
        ({}, {"address": "a:1"}, "neither rank nor world_size"),
        ({}, {"address": "a", "rank": 0, "world_size": 2}, r'"host:port", not \'a\''),
        ({}, {"address": ":1", "rank": 0, "world_size": 2}, r'"host:port", not \':1\''),
        ({}, {"address": "a:70000", "rank": 0, "world_size": 2}, "not 'a:70000'"),
        ({}, {"address": "a:1", "rank": 2, "world_size": 2}, "rank=2 and world_size=2 contradict"),
    ],
)
def test_what_is_missing_or_contradicts_is_named(
    environ: dict[str, str], arguments: dict[str, object], named: str
) -> None:
    with pytest.raises(LaunchError, match=named):
        read_launch(environ, **arguments)  # type: ignore[arg-type]


def test_a_rank_is_a_number() -> None:
    with pytest.raises(TypeError, match="rank of init\\(\\) is a whole number, not '1'"):
        read_launch(TORCH, rank="1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "nodes, first",
    [("a", "a"), ("a,b", "a"), ("gpu[007-009,12],x", "gpu007"), ("n[1,3]-ib,x", "n1-ib")],
)
def test_the_first_host_of_slurm(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def test_each_process_of_a_host_takes_its_gpu() -> None:
    assert visible_devices({}, 2, 4) == [2] == visible_devices({}, 2, None)
    assert visible_devices({}, 0, 1) is None and visible_devices({}, None, None) is None
    assert visible_devices({"CUDA_VISIBLE_DEVICES": "5"}, 2, 4) is None
    assert visible_devices({"CUDA_VISIBLE_DEVICES": "4,5"}, 1, 2) == [1]
    with pytest.raises(LaunchError, match="local rank 2, and CUDA_VISIBLE_DEVICES=4,5 names 2"):
        visible_devices({"CUDA_VISIBLE_DEVICES": "4,5"}, 2, 4)
