"""PyTorch's collectives, as a program calls them that may run alone.

gradwalk divides work by `Mesh` and `distribute`, and XLA communicates. In a job of one process a
collective has nothing to do; in a larger one it is an error that says so.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from gradwalk.distributed.processes import get_world_size, init

__all__ = [
    "Backend", "DTensor", "ProcessGroup", "ReduceOp", "all_gather", "all_gather_object",
    "all_reduce", "broadcast", "broadcast_object_list", "get_backend", "init_process_group",
    "is_available", "is_gloo_available", "is_mpi_available", "is_nccl_available",
    "is_ucc_available", "is_xccl_available", "new_group", "reduce",
]  # fmt: skip


class ProcessGroup:
    """What annotations name: some of the processes of a job. No function here makes one."""


class ReduceOp(Enum):
    """How PyTorch's collectives combine the tensors of the processes."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


class CommunicationBackend(str):
    """PyTorch's names of what communicates; XLA does, whichever is given."""

    NCCL, GLOO, MPI, UCC, XCCL, UNDEFINED = "nccl", "gloo", "mpi", "ucc", "xccl", "undefined"


Backend = CommunicationBackend


def is_available() -> bool:
    """True: a job of one process always works."""
    return True


def is_nccl_available() -> bool:
    """False: XLA communicates."""
    return False


is_gloo_available = is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


class DTensor:
    """What programs ask whether a tensor is divided as PyTorch divides it: none is."""


def init_process_group(
    backend: Any = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    **options: Any,
) -> None:
    """`init`, with PyTorch's arguments; the backend is XLA's.

    >>> import gradwalk as gw
    >>> gw.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> gw.distributed.all_reduce(gw.ones(2)), gw.distributed.get_world_size()
    (None, 1)
    >>> gw.distributed.destroy_process_group()
    """
    method = init_method or "env://"
    if not method.startswith(("env://", "tcp://")):
        raise ValueError(f'init_method is "env://" or "tcp://host:port", not {init_method!r}')
    address = method.removeprefix("tcp://") if method.startswith("tcp://") else None
    limit = {} if timeout is None else {"timeout": timeout.total_seconds()}
    init(
        None if world_size == 1 else address,
        world_size=None if world_size < 0 else world_size,
        rank=None if rank < 0 else rank,
        **limit,
    )


def get_backend(group: Any = None) -> str:
    """What communicates: "xla"."""
    return "xla"


def new_group(*args: Any, **options: Any) -> None:
    """No group: all processes of a job are one."""


def _alone(name: str) -> None:
    if get_world_size() > 1:
        raise NotImplementedError(
            f"distributed.{name} does not communicate between {get_world_size()} processes. Fix: "
            "divide the batch over them with gradwalk.Mesh and gradwalk.distribute; a compiled "
            "step then adds what each of them computed."
        )


def all_reduce(
    tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: Any = False
) -> None:
    """Nothing in a job of one process: the tensor is the sum."""
    _alone("all_reduce")


def reduce(tensor: Any, dst: int = 0, op: Any = ReduceOp.SUM, *args: Any, **options: Any) -> None:
    """Nothing in a job of one process."""
    _alone("reduce")


def broadcast(tensor: Any, src: int = 0, *args: Any, **options: Any) -> None:
    """Nothing in a job of one process."""
    _alone("broadcast")


def broadcast_object_list(object_list: list[Any], src: int = 0, *args: Any, **options: Any) -> None:
    """Nothing in a job of one process."""
    _alone("broadcast_object_list")


def all_gather(tensor_list: list[Any], tensor: Any, *args: Any, **options: Any) -> None:
    """Copy the tensor to the only place of the list, in a job of one process."""
    _alone("all_gather")
    tensor_list[0].copy_(tensor.detach())


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the object in the only place of the list, in a job of one process."""
    _alone("all_gather_object")
    object_list[0] = obj
