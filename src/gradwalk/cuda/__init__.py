"""GPUs, as PyTorch asks for them. JAX is looked for when a question needs it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

from gradwalk.cuda import amp as amp
from gradwalk.cuda.streams import (
    Event,
    Stream,
    current_stream,
    is_current_stream_capturing,
    stream,
    synchronize,
)
from gradwalk.engine.guest_loaders import loaders
from gradwalk.ops.core.longer_paths import longer_paths as _longer_paths
from gradwalk.random.generator import get_rng_state as _state
from gradwalk.random.generator import set_rng_state as _set_state
from gradwalk.tensors.conversions import TYPE_NAMES
from gradwalk.tensors.devices import numbered
from gradwalk.tensors.legacy import tensor_type

__all__ = [
    "Event", "OutOfMemoryError", "Stream", "current_device", "current_stream", "device",
    "device_count", "empty_cache", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "get_rng_state_all", "init", "ipc_collect",
    "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized",
    "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
    "reset_peak_memory_stats", "set_device", "set_rng_state", "set_rng_state_all", "stream",
    "synchronize",
]  # fmt: skip
_longer_paths(__name__, "memory", "random")
__all__ += TYPE_NAMES  # `cuda.FloatTensor` and its relatives
globals().update({name: tensor_type(name, "torch.cuda") for name in TYPE_NAMES})

OutOfMemoryError = MemoryError  # what NumPy raises
_initialized = False  # programs ask before they save the random state of devices: they have none


def is_available() -> bool:
    """Whether JAX is installed and sees a GPU.

    >>> import gradwalk as gw
    >>> gw.cuda.is_available() == (gw.cuda.device_count() > 0)
    True
    """
    return device_count() > 0


def device_count() -> int:
    """The GPUs that JAX sees; 0 without JAX."""
    try:
        xla = loaders["xla"]()
    except ImportError:
        return 0
    return len(xla.devices_of("cuda"))


def current_device() -> int:
    """The number of the GPU that "cuda" means: the first."""
    return 0


def get_device_name(device: Any = "cuda") -> str:
    """What the maker calls the device, such as "NVIDIA H200"."""
    name: str = loaders["xla"]().name_of_device(numbered("cuda" if device is None else device))
    return name


def is_bf16_supported() -> bool:
    """Whether there is a GPU: XLA has bfloat16 on all of them.

    >>> import gradwalk as gw
    >>> gw.cuda.is_bf16_supported() == gw.cuda.is_available()
    True
    """
    return is_available()


def memory_allocated(device: Any = "cuda") -> int:
    """The bytes of a device that arrays take now; 0 where JAX does not count them."""
    return _memory(device).get("bytes_in_use", 0)


def max_memory_allocated(device: Any = "cuda") -> int:
    """The most bytes that were in use since the program began: JAX cannot start again at zero."""
    return _memory(device).get("peak_bytes_in_use", 0)


def _memory(device: Any) -> dict[str, int]:
    if not is_available():
        return {}
    found: dict[str, int] = loaders["xla"]().memory_stats(
        numbered("cuda" if device is None else device)
    )
    return found


def manual_seed(seed: int) -> None:
    """Nothing: a device draws from the same stream as the CPU; see `gradwalk.manual_seed`."""


def manual_seed_all(seed: int) -> None:
    """Nothing: a device draws from the same stream as the CPU; see `gradwalk.manual_seed`."""


def empty_cache() -> None:
    """Nothing: JAX manages the memory of its devices."""


ipc_collect = reset_peak_memory_stats = empty_cache


def init() -> None:
    """Nothing: JAX starts a device when it is used first."""


def is_initialized() -> bool:
    """Whether there is a GPU."""
    return is_available()


def set_device(device: Any) -> None:
    """Nothing for the first GPU, which is what "cuda" means; an error for another.

    >>> import gradwalk as gw
    >>> gw.cuda.set_device(0)
    """
    number = getattr(device, "index", device)
    number = numbered(number).index if isinstance(number, str) else number
    if number:
        raise ValueError(
            f'cuda.set_device({device}): "cuda" means the first GPU. Fix: name the device where a '
            f'tensor or a module goes, .to("cuda:{number}"), or set CUDA_VISIBLE_DEVICES={number}.'
        )


def device(device: Any) -> Any:
    """A context in which "cuda" means this GPU, which must be the first."""
    set_device(device)
    return contextlib.nullcontext()


def get_device_properties(device: Any = "cuda") -> SimpleNamespace:
    """The name, memory and compute capability of a GPU."""
    major, minor = get_device_capability(device)
    total = _memory(device).get("bytes_limit", 0)
    return SimpleNamespace(
        name=get_device_name(device), total_memory=total, major=major, minor=minor
    )


def get_device_capability(device: Any = "cuda") -> tuple[int, int]:
    """What the GPU can do, as NVIDIA numbers it: (9, 0) for an H200."""
    xla = loaders["xla"]()
    found = xla.jax_device(numbered("cuda" if device is None else device))
    major, _, minor = str(getattr(found, "compute_capability", "0.0")).partition(".")
    return int(major), int(minor or 0)


memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of the stream that devices share with the CPU."""
    return _state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Restore the stream that devices share with the CPU."""
    _set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The state of each GPU: they share one."""
    return [_state()] * device_count()


def set_rng_state_all(new_states: Any) -> None:
    """Restore what `get_rng_state_all` returned."""
    for new_state in new_states:
        _set_state(new_state)
