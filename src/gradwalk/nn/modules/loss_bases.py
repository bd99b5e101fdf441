"""What PyTorch's programs derive losses of their own from."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

from gradwalk.nn.layers import loss
from gradwalk.nn.module import Module


class _Loss(Module, metaclass=ABCMeta):
    """A module with an attribute `reduction`; the losses of `nn` count as such, too."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:  # deprecated, as in PyTorch
            summed = "mean" if size_average in (None, True) else "sum"
            reduction = summed if reduce in (None, True) else "none"
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a buffer `weight`."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


for _name in loss.__all__:
    if _name.endswith("Loss"):
        _found = getattr(loss, _name)
        (_WeightedLoss if "weight" in _found._saved else _Loss).register(_found)
