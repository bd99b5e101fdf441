"""Which process of how many this one is: read from the variables that launchers set.

Everything here is a function of a mapping of environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

DEFAULT_PORT = 29500  # PyTorch's


class Launcher(NamedTuple):
    """The variables of one way to start processes; "" for what it does not say."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    line: str  # how to start a program


LAUNCHERS = (
    Launcher(
        "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
        "torchrun --nproc-per-node=4 train.py, or in each process: "
        "MASTER_ADDR=host0 MASTER_PORT=29500 WORLD_SIZE=4 RANK=0 python train.py",
    ),
    Launcher(
        "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "mpirun -n 4 -x MASTER_ADDR=$(hostname) python train.py",
    ),
    Launcher(
        "MPI (PMI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
        "mpiexec -n 4 -genv MASTER_ADDR $(hostname) python train.py",
    ),
    Launcher(
        "SLURM", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "",
        "srun --ntasks=4 python train.py",
    ),
    Launcher(
        "Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "", "",
        "an indexed Job with completions: 4 and a headless service, and in its container "
        "env: WORLD_SIZE=4, MASTER_ADDR=<job>-0.<service>",
    ),
)  # fmt: skip


class Launch(NamedTuple):
    """The place of this process among all."""

    host: str  # of rank 0
    port: int
    world_size: int
    rank: int
    local_rank: int | None  # among the processes of this host; None: not said
    local_size: int | None
    launcher: str

    @property
    def is_alone(self) -> bool:
        """Whether there is no other process to speak to."""
        return self.world_size == 1


class LaunchError(RuntimeError):
    """The variables that say which process this is are missing or contradict each other."""


def read_launch(
    environ: Mapping[str, str],
    address: str | None = None,
    world_size: int | None = None,
    rank: int | None = None,
) -> Launch:
    """Read the place of this process; arguments that are given count before the variables."""
    for name, given in (("world_size", world_size), ("rank", rank)):
        if given is not None and not isinstance(given, int):
            raise TypeError(f"{name} of init() is a whole number, not {given!r}")
    launcher = _launcher(environ, explicit=rank is not None)
    if launcher is None:
        if (rank is None) != (world_size is None):
            missing = "rank" if rank is None else "world_size"
            raise LaunchError(
                f"init() was not given {missing}, and no launcher has set it.\n"
                'Fix: gw.distributed.init("host0:29500", world_size=4, rank=0), or '
                f"{LAUNCHERS[0].line}"
            )
        if rank is None and address is None:
            return Launch("127.0.0.1", 0, 1, 0, None, None, "")
        if rank is None:
            raise LaunchError(
                f"init({address!r}) was given neither rank nor world_size, and no launcher has set "
                f"them.\nFix: gw.distributed.init({address!r}, world_size=4, rank=0), or "
                f"{LAUNCHERS[0].line}"
            )
    found_rank = rank if rank is not None else _number(environ, launcher, "rank")
    size = world_size if world_size is not None else _number(environ, launcher, "size")
    assert found_rank is not None and size is not None
    _check(launcher, found_rank, size, rank, world_size)
    local_rank = local_size = None
    if launcher is not None and rank is None:
        local_rank = _number(environ, launcher, "local_rank", needed=False)
        local_size = _number(environ, launcher, "local_size", needed=False)
        if local_rank is not None and local_size is not None and local_rank >= local_size:
            raise LaunchError(
                f"{launcher.local_rank}={local_rank} is not below "
                f"{launcher.local_size}={local_size}.\nFix: launch with {launcher.line}"
            )
    name = "" if launcher is None else launcher.name
    if size == 1:
        return Launch("127.0.0.1", 0, 1, 0, local_rank, local_size, name)
    host, port = _address(environ, address, launcher, size, local_size)
    return Launch(host, port, size, found_rank, local_rank, local_size, name)


def visible_devices(
    environ: Mapping[str, str], local_rank: int | None, local_size: int | None
) -> list[int] | None:
    """The GPUs that a process takes: one of them if it shares its host; None: all it sees."""
    if local_rank is None or local_size == 1:
        return None
    seen = environ.get("CUDA_VISIBLE_DEVICES", environ.get("ROCR_VISIBLE_DEVICES"))
    if seen is None:
        return [local_rank]
    names = [name for name in seen.split(",") if name.strip()]
    if len(names) <= 1:
        return None  # the launcher gave this process its own
    if local_rank >= len(names):
        raise LaunchError(
            f"this process has the local rank {local_rank}, and CUDA_VISIBLE_DEVICES={seen} names "
            f"{len(names)} GPUs.\nFix: start at most {len(names)} processes on this host."
        )
    return [local_rank]


def _launcher(environ: Mapping[str, str], explicit: bool) -> Launcher | None:
    """The launcher whose variables are set; raise if some of them are missing."""
    for launcher in LAUNCHERS:
        if launcher.rank in environ and launcher.size in environ:
            return launcher
    if explicit:
        return None
    for launcher in LAUNCHERS:
        present = [v for v in (launcher.rank, launcher.size) if v in environ]
        if launcher.name == "SLURM":
            tasks = environ.get("SLURM_NTASKS", "1")
            if tasks not in ("", "1"):
                raise LaunchError(
                    f"SLURM_NTASKS={tasks}, and SLURM_STEP_NUM_TASKS is not set: srun did not "
                    f"start this process.\nFix: launch with {launcher.line}"
                )
            continue
        if launcher.name == "Kubernetes" and launcher.rank not in environ:
            continue  # WORLD_SIZE alone is torchrun's
        if present:
            missing = [v for v in (launcher.rank, launcher.size) if v not in environ]
            raise LaunchError(
                f"{_given(environ, present)} is set, and {' and '.join(missing)} is not.\n"
                f"Fix: launch with {launcher.line}"
            )
    return None


def _number(
    environ: Mapping[str, str], launcher: Launcher | None, field: str, needed: bool = True
) -> int | None:
    """A variable as a whole number that is not negative."""
    assert launcher is not None
    variable = getattr(launcher, field)
    text = environ.get(variable, "") if variable else ""
    if not text and not needed:
        return None
    if not text.isdecimal():
        raise LaunchError(
            f"{variable}={text!r} is not a whole number from 0.\nFix: launch with {launcher.line}"
        )
    return int(text)


def _check(
    launcher: Launcher | None, rank: int, size: int, given_rank: int | None, given_size: int | None
) -> None:
    if 0 <= rank < size:
        return
    of_rank = "rank" if given_rank is not None or launcher is None else launcher.rank
    of_size = "world_size" if given_size is not None or launcher is None else launcher.size
    line = (launcher or LAUNCHERS[0]).line
    raise LaunchError(
        f"{of_rank}={rank} and {of_size}={size} contradict each other: ranks are 0 to "
        f"{of_size} - 1.\nFix: launch with {line}"
    )


def _address(
    environ: Mapping[str, str],
    address: str | None,
    launcher: Launcher | None,
    size: int,
    local_size: int | None,
) -> tuple[str, int]:
    """Where rank 0 listens."""
    if address is not None:
        host, colon, port = address.removeprefix("tcp://").rpartition(":")
        if not host or not colon or not _is_port(port):
            raise LaunchError(f'the address of rank 0 is "host:port", not {address!r}')
        return host.strip("[]"), int(port)
    line = (launcher or LAUNCHERS[0]).line
    port = environ.get("MASTER_PORT", "")
    if port and not _is_port(port):
        raise LaunchError(f"MASTER_PORT={port!r} is not a port.\nFix: launch with {line}")
    # torchrun itself listens at MASTER_PORT then, and so does PyTorch's store.
    number = int(port or DEFAULT_PORT) + (environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True")
    host = environ.get("MASTER_ADDR", "")
    if host:
        return host, number
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST")
    if nodes:
        job = environ.get("SLURM_JOB_ID", "")
        if not port and job.isdecimal():  # two jobs on one host do not meet
            number = 61440 + int(job) % 4000
        return first_host(nodes), number
    if local_size == size:
        return "127.0.0.1", number
    raise LaunchError(
        f"MASTER_ADDR is not set, so this process cannot find rank 0 of {size}.\n"
        f"Fix: launch with {line}"
    )


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) < 65536


def first_host(nodes: str) -> str:
    """The first host of SLURM's list.

    >>> first_host("gpu[007-009,12],cpu1")
    'gpu007'
    """
    match = re.match(r"([^\[,]+)(?:\[([^\]]+)\])?([^,\[]*)", nodes)
    if match is None:
        raise LaunchError(f"SLURM's list of nodes is {nodes!r}. Fix: set MASTER_ADDR.")
    stem, numbers, end = match.groups()
    first = re.split(r"[,-]", numbers)[0] if numbers else ""
    return f"{stem}{first}{end}"


def _given(environ: Mapping[str, str], names: list[str]) -> str:
    return " and ".join(f"{name}={environ[name]}" for name in names)
