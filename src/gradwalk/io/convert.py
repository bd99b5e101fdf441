"""State dicts from and to PyTorch's tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.io.nested_state import converted
from gradwalk.ops.core.dtypes import bfloat16, is_bfloat16
from gradwalk.ops.core.halves import widened
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.devices import placed
from gradwalk.tensors.tensor import Tensor


def from_torch(state: Any) -> Any:
    """PyTorch's tensors as gradwalk's, copied; dicts and lists of them keep their structure.

    >>> import gradwalk as gw
    >>> model = gw.nn.Linear(2, 1)
    >>> theirs = gw.io.to_torch(model.state_dict())  # or torch_model.state_dict()
    >>> model.load_state_dict(gw.io.from_torch(theirs))
    <All keys matched successfully>
    """
    return converted(state, _from_torch)


def _from_torch(value: Any) -> Any:
    if isinstance(value, Tensor) or not hasattr(value, "detach") or not hasattr(value, "cpu"):
        return value
    here = value.detach().cpu()
    if str(here.dtype) == "torch.bfloat16":  # which PyTorch gives to NumPy as float32 only
        return wrap(np.array(here.float().numpy(), bfloat16(), order="C"))
    return wrap(np.array(here.numpy(), order="C"))


def to_torch(state: Any) -> Any:
    """gradwalk's tensors as PyTorch's, copied; dicts and lists of them keep their structure.

    >>> import gradwalk as gw
    >>> gw.io.to_torch({"weight": gw.ones(2)})
    {'weight': tensor([1., 1.])}
    """
    import torch

    def theirs(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        array = placed(value._array, "cpu")
        return (
            torch.tensor(widened(array)).bfloat16()
            if is_bfloat16(array.dtype)
            else torch.tensor(array)
        )

    return converted(state, theirs)
