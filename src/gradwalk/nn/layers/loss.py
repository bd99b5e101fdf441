"""Losses as layers, and distances.

Each has the options of the function of the same name, without PyTorch's deprecated `size_average`
and `reduce`: use `reduction="mean"`, `"sum"` or `"none"`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.layers.options import Options, layer
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "MSELoss", "MarginRankingLoss", "NLLLoss", "PairwiseDistance", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Options):
    def forward(self, input: Any, target: Any) -> Any:
        """The loss."""
        return self._apply(input, target)


@layer
class L1Loss(_Loss):
    r"""$|x - y|$."""

    reduction: str = "mean"
    _function = functional.l1_loss


@layer
class MSELoss(_Loss):
    r"""$(x - y)^2$.

    >>> import gradwalk as gw
    >>> gw.nn.MSELoss()(gw.tensor([1.0, 3.0]), gw.tensor([1.0, 1.0]))
    tensor(2.)
    """

    reduction: str = "mean"
    _function = functional.mse_loss


@layer
class SmoothL1Loss(_Loss):
    r"""$(x - y)^2 / 2\beta$ near zero, $|x - y| - \beta / 2$ elsewhere."""

    reduction: str = "mean"
    beta: float = 1.0
    _function = functional.smooth_l1_loss


@layer
class HuberLoss(_Loss):
    r"""$(x - y)^2 / 2$ near zero, $\delta (|x - y| - \delta / 2)$ elsewhere."""

    reduction: str = "mean"
    delta: float = 1.0
    _function = functional.huber_loss


class _WeightedLoss(_Loss):
    """A loss whose weights are buffers."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction
        self.register_buffer("weight", weight)


class CrossEntropyLoss(_WeightedLoss):
    r"""$-\log \mathrm{softmax}(x)_y$, or $-\sum_c y_c \log \mathrm{softmax}(x)_c$.

    >>> import gradwalk as gw
    >>> gw.nn.CrossEntropyLoss()(gw.tensor([[1e4, -1e4]]), gw.tensor([0]))
    tensor(0.)
    """

    _function = functional.cross_entropy
    _options = ("weight", "ignore_index", "reduction", "label_smoothing")

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing


class NLLLoss(_WeightedLoss):
    r"""$-x_y$ of log probabilities $x$."""

    _function = functional.nll_loss
    _options = ("weight", "ignore_index", "reduction")

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index


class BCELoss(_WeightedLoss):
    r"""$-y \log x - (1 - y) \log (1 - x)$ of probabilities $x$."""

    _function = functional.binary_cross_entropy
    _options = ("weight", "reduction")


class BCEWithLogitsLoss(_WeightedLoss):
    """`BCELoss` of sigmoid(x), stable; `pos_weight` scales the loss of the positive class."""

    pos_weight: Tensor | None
    _function = functional.binary_cross_entropy_with_logits
    _options = ("weight", "reduction", "pos_weight")

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)


@layer
class KLDivLoss(_Loss):
    r"""$y (\log y - x)$ of log probabilities $x$; `reduction="batchmean"` is the divergence."""

    reduction: str = "mean"
    log_target: bool = False
    _function = functional.kl_div


@layer
class PoissonNLLLoss(Options):
    r"""$e^x - y x$, or $x - y \log x$ where `log_input` is off."""

    log_input: bool = True
    full: bool = False
    eps: float = 1e-8
    reduction: str = "mean"
    _function = functional.poisson_nll_loss

    def forward(self, log_input: Any, target: Any) -> Any:
        """The loss."""
        return self._apply(log_input, target)


class GaussianNLLLoss(Options):
    r"""$\frac{1}{2} \left(\log \sigma^2 + (x - y)^2 / \sigma^2\right)$."""

    _function = functional.gaussian_nll_loss
    _options = ("full", "eps", "reduction")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__()
        self.full = full
        self.eps = eps
        self.reduction = reduction

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        """The loss."""
        return self._apply(input, target, var)


class _PairLoss(Options):
    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        """The loss."""
        return self._apply(input1, input2, target)


@layer
class MarginRankingLoss(_PairLoss):
    r"""$\max(0, -y (x_1 - x_2) + \text{margin})$."""

    margin: float = 0.0
    reduction: str = "mean"
    _function = functional.margin_ranking_loss


@layer
class HingeEmbeddingLoss(_Loss):
    r"""$x$ where $y = 1$, $\max(0, \text{margin} - x)$ where $y = -1$."""

    margin: float = 1.0
    reduction: str = "mean"
    _function = functional.hinge_embedding_loss


@layer
class CosineEmbeddingLoss(_PairLoss):
    r"""$1 - \cos$ where $y = 1$, $\max(0, \cos - \text{margin})$ where $y = -1$."""

    margin: float = 0.0
    reduction: str = "mean"
    _function = functional.cosine_embedding_loss


class _TripletLoss(Options):
    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """The loss."""
        return self._apply(anchor, positive, negative)


@layer
class TripletMarginLoss(_TripletLoss):
    r"""$\max(0, |a - p| - |a - n| + \text{margin})$."""

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    reduction: str = "mean"
    _function = functional.triplet_margin_loss


class TripletMarginWithDistanceLoss(_TripletLoss):
    """`TripletMarginLoss` with any distance function."""

    _function = functional.triplet_margin_with_distance_loss
    _options = ("distance_function", "margin", "swap", "reduction")

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.distance_function = distance_function or PairwiseDistance()
        self.margin = margin
        self.swap = swap
        self.reduction = reduction


@layer
class SoftMarginLoss(_Loss):
    r"""$\log(1 + e^{-y x})$."""

    reduction: str = "mean"
    _function = functional.soft_margin_loss


@layer
class CosineSimilarity(Options):
    r"""$x_1 \cdot x_2 / (|x_1| |x_2|)$ along `dim`."""

    dim: int = 1
    eps: float = 1e-8
    _function = functional.cosine_similarity

    def forward(self, x1: Any, x2: Any) -> Any:
        """The cosine of the angle between two vectors."""
        return self._apply(x1, x2)


class PairwiseDistance(Options):
    r"""$|x_1 - x_2 + \epsilon|_p$ along the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """The distance between two vectors."""
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
