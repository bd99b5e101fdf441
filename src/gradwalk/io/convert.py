"""State dicts from and to PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor


def from_torch(state: Any) -> Any:
    """PyTorch's tensors as gradwalk's, copied; dicts and lists of them keep their structure.

    bfloat16 and float16 become float32.

    >>> import gradwalk as gw
    >>> model = gw.nn.Linear(2, 1)
    >>> theirs = gw.io.to_torch(model.state_dict())  # or torch_model.state_dict()
    >>> model.load_state_dict(gw.io.from_torch(theirs))
    <All keys matched successfully>
    """
    if isinstance(state, Mapping):
        return {key: from_torch(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(from_torch(value) for value in state)
    if hasattr(state, "detach") and hasattr(state, "cpu") and not isinstance(state, Tensor):
        here = state.detach().cpu()
        if str(here.dtype) in ("torch.bfloat16", "torch.float16"):
            here = here.float()
        return wrap(np.array(here.numpy(), order="C"))
    return state


def to_torch(state: Any) -> Any:
    """gradwalk's tensors as PyTorch's, copied; dicts and lists of them keep their structure.

    >>> import gradwalk as gw
    >>> gw.io.to_torch({"weight": gw.ones(2)})
    {'weight': tensor([1., 1.])}
    """
    import torch

    def converted(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: converted(v) for key, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(converted(v) for v in value)
        return torch.tensor(value._array) if isinstance(value, Tensor) else value

    return converted(state)
