"""What PyTorch's programs derive losses of their own from."""

from __future__ import annotations

from typing import Any

from gradwalk.nn.module import Module


class _Loss(Module):
    """A module with an attribute `reduction`."""

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
