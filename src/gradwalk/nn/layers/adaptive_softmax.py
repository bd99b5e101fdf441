"""A softmax over many classes, in which rare classes cost less."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gradwalk.nn import functional
from gradwalk.nn.constructors import on_device
from gradwalk.nn.containers import ModuleList, Sequential
from gradwalk.nn.layers.linear import Linear
from gradwalk.nn.module import Module
from gradwalk.ops.elementwise.choice import clip, where
from gradwalk.ops.index.indexing import gather
from gradwalk.ops.network.softmax import check_classes
from gradwalk.ops.shape.reshaping import cat, squeeze, unsqueeze

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class ASMoutput(NamedTuple):
    """The log-probability of each target, and the loss."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """log softmax by clusters: frequent classes in the head, rarer ones behind one entry each.

    `cutoffs` are the first classes of the clusters; the features of cluster i are projected to
    in_features / div_value^i first.

    >>> import gradwalk as gw
    >>> layer = gw.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10])
    >>> layer(gw.zeros(3, 8), gw.tensor([0, 7, 19])).output.shape
    (3,)
    """

    @on_device
    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        ends = list(cutoffs)
        if not ends or ends != sorted(set(ends)) or ends[0] < 1 or ends[-1] > n_classes - 1:
            raise ValueError(
                f"cutoffs are different, increasing numbers from 1 to {n_classes - 1}, not {ends}"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*ends, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = ends[0], len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, dtype=dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:]), 1):
            width = int(in_features // div_value**i)
            first = Linear(in_features, width, bias=False, dtype=dtype)
            self.tail.append(Sequential(first, Linear(width, high - low, bias=False, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Initialize all weights anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def log_prob(self, input: Any) -> Any:
        """The log-probability of every class: (N, n_classes)."""
        head = functional.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            inside = functional.log_softmax(cluster(input), dim=1)
            parts.append(inside + unsqueeze(head[:, self.shortlist_size + i], 1))
        return cat(parts, 1)

    def forward(self, input_: Any, target_: Any) -> ASMoutput:
        """The log-probabilities of the targets, and the mean loss."""
        rows, wanted = (input_, target_) if input_.ndim == 2 else (input_[None], target_[None])
        if tuple(rows.shape[:1]) != tuple(wanted.shape):
            raise RuntimeError(f"input {tuple(input_.shape)} and target {tuple(target_.shape)}")
        check_classes(wanted, self.n_classes)
        head = functional.log_softmax(self.head(rows), dim=1)
        output = _at(head, clip(wanted, max=self.shortlist_size - 1))
        for i, cluster in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            inside = functional.log_softmax(cluster(rows), dim=1)
            here = _at(inside, clip(wanted - low, 0, high - low - 1))
            output = where(wanted >= low, here + head[:, self.shortlist_size + i], output)
        if input_.ndim == 1:
            output = squeeze(output, 0)
        return ASMoutput(output, -output.mean())

    def predict(self, input: Any) -> Any:
        """The most probable class of each row."""
        return self.log_prob(input).argmax(1)


def _at(scores: Any, classes: Any) -> Any:
    return squeeze(gather(scores, 1, unsqueeze(classes, 1)), 1)
