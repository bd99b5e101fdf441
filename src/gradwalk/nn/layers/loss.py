"""Losses as layers, and distances. Each has the options of the function of the same name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar
from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.functional.loss import how_reduced
from gradwalk.nn.layers.linear import Linear
from gradwalk.nn.layers.options import Options, layer
from gradwalk.nn.module import Module
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CosineSimilarity",
    "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "LinearCrossEntropyLoss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PairwiseDistance", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


@layer()
class _Reduced(Options):
    _: KW_ONLY
    size_average: InitVar[bool | None] = None  # deprecated, as in PyTorch; so is `reduce`
    reduce: InitVar[bool | None] = None

    def _construct(self, **options: Any) -> None:
        old = (options.pop("size_average"), options.pop("reduce"))
        if old != (None, None):
            options["reduction"] = how_reduced(options["reduction"], *old)
        super()._construct(**options)


class _Loss(_Reduced):
    def forward(self, input: Any, target: Any) -> Any:
        """The loss."""
        return self._computed(input, target)


@layer()
class _ReducedLoss(_Loss):
    reduction: str = "mean"


@layer(functional.l1_loss)
class L1Loss(_ReducedLoss):
    r"""$|x - y|$."""


@layer(functional.mse_loss)
class MSELoss(_ReducedLoss):
    r"""$(x - y)^2$.

    >>> import gradwalk as gw
    >>> gw.nn.MSELoss()(gw.tensor([1.0, 3.0]), gw.tensor([1.0, 1.0]))
    tensor(2.)
    """


@layer(functional.smooth_l1_loss)
class SmoothL1Loss(_ReducedLoss):
    r"""$(x - y)^2 / 2\beta$ near zero, $|x - y| - \beta / 2$ elsewhere."""

    beta: float = 1.0


@layer(functional.huber_loss)
class HuberLoss(_ReducedLoss):
    r"""$(x - y)^2 / 2$ near zero, $\delta (|x - y| - \delta / 2)$ elsewhere."""

    delta: float = 1.0


@layer(functional.cross_entropy, buffers="weight")
class CrossEntropyLoss(_Loss):
    r"""$-\log \mathrm{softmax}(x)_y$, or $-\sum_c y_c \log \mathrm{softmax}(x)_c$.

    >>> import gradwalk as gw
    >>> gw.nn.CrossEntropyLoss()(gw.tensor([[1e4, -1e4]]), gw.tensor([0]))
    tensor(0.)
    """

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: str = "mean"
    label_smoothing: float = 0.0


@layer(functional.nll_loss, buffers="weight")
class NLLLoss(_Loss):
    r"""$-x_y$ of log probabilities $x$."""

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: str = "mean"


@layer(functional.binary_cross_entropy, buffers="weight")
class BCELoss(_Loss):
    r"""$-y \log x - (1 - y) \log (1 - x)$ of probabilities $x$."""

    weight: Tensor | None = None
    reduction: str = "mean"


@layer(functional.binary_cross_entropy_with_logits, buffers="weight pos_weight")
class BCEWithLogitsLoss(_Loss):
    """`BCELoss` of sigmoid(x), stable; `pos_weight` scales the loss of the positive class."""

    weight: Tensor | None = None
    reduction: str = "mean"
    pos_weight: Tensor | None = None


@layer(functional.kl_div)
class KLDivLoss(_ReducedLoss):
    r"""$y (\log y - x)$ of log probabilities $x$; `reduction="batchmean"` is the divergence."""

    log_target: bool = False


@layer(functional.poisson_nll_loss)
class PoissonNLLLoss(_Reduced):
    r"""$e^x - y x$, or $x - y \log x$ where `log_input` is off."""

    log_input: bool = True
    full: bool = False
    eps: float = 1e-8
    reduction: str = "mean"

    def forward(self, log_input: Any, target: Any) -> Any:
        """The loss."""
        return self._computed(log_input, target)


@layer(functional.gaussian_nll_loss)
class GaussianNLLLoss(Options):
    r"""$\frac{1}{2} \left(\log \sigma^2 + (x - y)^2 / \sigma^2\right)$."""

    _: KW_ONLY
    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        """The loss."""
        return self._computed(input, target, var)


class _PairLoss(_Reduced):
    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        """The loss."""
        return self._computed(input1, input2, target)


@layer(functional.margin_ranking_loss)
class MarginRankingLoss(_PairLoss):
    r"""$\max(0, -y (x_1 - x_2) + \text{margin})$."""

    margin: float = 0.0
    reduction: str = "mean"


@layer(functional.hinge_embedding_loss)
class HingeEmbeddingLoss(_Loss):
    r"""$x$ where $y = 1$, $\max(0, \text{margin} - x)$ where $y = -1$."""

    margin: float = 1.0
    reduction: str = "mean"


@layer(functional.cosine_embedding_loss)
class CosineEmbeddingLoss(_PairLoss):
    r"""$1 - \cos$ where $y = 1$, $\max(0, \cos - \text{margin})$ where $y = -1$."""

    margin: float = 0.0
    reduction: str = "mean"


class _TripletLoss(Options):
    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """The loss."""
        return self._computed(anchor, positive, negative)


@layer(functional.triplet_margin_loss)
class TripletMarginLoss(_TripletLoss, _Reduced):
    r"""$\max(0, |a - p| - |a - n| + \text{margin})$."""

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    reduction: str = "mean"


@layer(functional.triplet_margin_with_distance_loss)
class TripletMarginWithDistanceLoss(_TripletLoss):
    """`TripletMarginLoss` with any distance function."""

    _: KW_ONLY
    distance_function: Callable[[Any, Any], Any] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"

    def _check(self) -> None:
        self.distance_function = self.distance_function or PairwiseDistance()


@layer(functional.soft_margin_loss)
class SoftMarginLoss(_ReducedLoss):
    r"""$\log(1 + e^{-y x})$."""


@layer(functional.multi_margin_loss, buffers="weight")
class MultiMarginLoss(_Loss):
    r"""$\frac{1}{C} \sum_{i \ne y} \max(0, \text{margin} - x_y + x_i)^p$."""

    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None
    reduction: str = "mean"


@layer(functional.multilabel_margin_loss)
class MultiLabelMarginLoss(_ReducedLoss):
    r"""$\frac{1}{C} \sum_{j \in y} \sum_{i \notin y} \max(0, 1 - x_j + x_i)$."""


@layer(functional.multilabel_soft_margin_loss, buffers="weight")
class MultiLabelSoftMarginLoss(_Loss):
    """Binary cross entropy of sigmoid(x), averaged over the classes."""

    weight: Tensor | None = None
    reduction: str = "mean"


@layer(functional.ctc_loss)
class CTCLoss(Options):
    """−log of the probability of a sequence of labels, summed over its alignments with time."""

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        """The loss."""
        return self._computed(log_probs, targets, input_lengths, target_lengths)


@layer(functional.linear_cross_entropy, buffers="weight")
class LinearCrossEntropyLoss(Options):
    """`CrossEntropyLoss` of a learned linear map of the input to scores of classes."""

    in_features: int
    num_classes: int
    out_features: tuple[int, ...] = ()
    bias: bool = False
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None
    reduction: str = "mean"
    weight: Tensor | None = None
    ignore_index: int | None = None
    label_smoothing: float = 0.0
    options: InitVar[Any] = None

    def _construct(self, **options: Any) -> None:
        columns, bias, dtype, *_ = map(
            options.pop, ("in_features", "bias", "dtype", "device", "options")
        )
        super()._construct(**options)
        rows = self.num_classes * math.prod(self.out_features)
        self.linear = Linear(columns, rows, bias=bias, dtype=dtype)

    def forward(self, input: Any, target: Any) -> Any:
        """The loss."""
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return functional.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, input.shape[-1]),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )


@layer(functional.cosine_similarity)
class CosineSimilarity(Options):
    r"""$x_1 \cdot x_2 / (|x_1| |x_2|)$ along `dim`."""

    dim: int = 1
    eps: float = 1e-8

    def forward(self, x1: Any, x2: Any) -> Any:
        """The cosine of the angle between two vectors."""
        return self._computed(x1, x2)


class PairwiseDistance(Module):
    r"""$|x_1 - x_2 + \epsilon|_p$ along the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """The distance between two vectors."""
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
