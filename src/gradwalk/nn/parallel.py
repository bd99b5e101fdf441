"""PyTorch's wrappers for several devices, on one.

gradwalk divides work over devices by `Mesh` and `distribute`, without wrapping the model. These
names let a program that wraps run as it is; parameters keep their `module.` prefix.
"""

from __future__ import annotations

from typing import Any

from gradwalk.distributed.processes import get_world_size
from gradwalk.nn.module import Module
from gradwalk.ops.core.longer_paths import longer_paths

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "scatter"]

longer_paths(__name__, "distributed", "scatter_gather")


class DataParallel(Module):
    """A model, called on the device it is on.

    >>> import gradwalk as gw
    >>> list(gw.nn.DataParallel(gw.nn.Linear(2, 3)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(
                f"{type(self).__name__} runs on one device, not on {device_ids}. Fix: leave out "
                "device_ids, or divide the batch with gradwalk.Mesh and gradwalk.distribute."
            )
        self.module = module
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the model."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(DataParallel):
    """A model in a job of one process; for more, see `gradwalk.distributed`."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, **options: Any
    ) -> None:
        super().__init__(module, device_ids, output_device)
        if get_world_size() > 1:
            raise RuntimeError(
                "DistributedDataParallel does not average gradients over processes. Fix: divide "
                "the batch over them with gradwalk.Mesh and gradwalk.distribute."
            )


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call `DataParallel(module)`."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """The inputs of each device, of which there is one."""
    if len(target_gpus) != 1:
        raise ValueError(
            f"scatter gives inputs to one device, not to {target_gpus}. Fix: name one, or divide "
            "the batch with gradwalk.Mesh and gradwalk.distribute."
        )
    return [inputs]
