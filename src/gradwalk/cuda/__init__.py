"""GPUs, as PyTorch asks for them. JAX is looked for when a question needs it."""

from __future__ import annotations

from typing import Any

from gradwalk.cuda import amp as amp
from gradwalk.engine.guest_loaders import loaders
from gradwalk.tensors.conversions import TYPE_NAMES
from gradwalk.tensors.devices import numbered
from gradwalk.tensors.legacy import tensor_type

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_name", "is_available",
    "is_bf16_supported", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "memory_allocated", "synchronize",
]  # fmt: skip
__all__ += TYPE_NAMES  # `cuda.FloatTensor` and its relatives
globals().update({name: tensor_type(name, "torch.cuda") for name in TYPE_NAMES})


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
    found: dict[str, int] = loaders["xla"]().memory_stats(
        numbered("cuda" if device is None else device)
    )
    return found


def synchronize(device: object = None) -> None:
    """Wait until the devices have computed everything they were given; a compiled step that
    failed raises now."""
    try:
        xla = loaders["xla"]()
    except ImportError:
        return
    xla.synchronize()


def manual_seed(seed: int) -> None:
    """Nothing: a device draws from the same stream as the CPU; see `gradwalk.manual_seed`."""


def manual_seed_all(seed: int) -> None:
    """Nothing: a device draws from the same stream as the CPU; see `gradwalk.manual_seed`."""


def empty_cache() -> None:
    """Nothing: JAX manages the memory of its devices."""
