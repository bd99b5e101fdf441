"""`nn.functional` against PyTorch: one table of calls, run with m = gradwalk and m = torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched
from tests.ops.oracle import OURS, SINGLE, THEIRS, TIGHT, TIGHT_SECOND, assert_same, run
from tests.ops.samples.table import Draw, floats, given, integers

F = gw.nn.functional


@dataclass(frozen=True)
class Fixed:
    """An input that PyTorch has no gradient for, such as the weights of classes."""

    draw: Draw

    def __call__(self, source: np.random.Generator) -> np.ndarray:
        return self.draw(source)


@dataclass(frozen=True)
class Case:
    """A function, the keywords it is called with, and how its tensors are drawn."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Draw, ...]
    note: str
    second: bool

    def ready(self, dtype: Any = np.float64) -> tuple[Callable[..., Any], list[np.ndarray]]:
        """The call, and the arrays that it is differentiated by."""
        source = np.random.default_rng(len(str(self)))
        drawn = [draw(source) for draw in self.inputs]
        arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in drawn]
        fixed = [isinstance(draw, Fixed) for draw in self.inputs]

        def call(m: Any, *leaves: Any) -> Any:
            rest = iter(leaves)
            tensors = [m.from_numpy(a) if f else next(rest) for a, f in zip(arrays, fixed)]
            return self.function(m, *tensors)

        return call, [a for a, f in zip(arrays, fixed) if not f]

    def __str__(self) -> str:
        return f"{self.name} {self.note}".strip()


CASES: list[Case] = []


def add(
    name: str,
    *inputs: Draw,
    order: str = "",
    second: bool = False,
    **options: list[Any],
) -> None:
    """Every combination of the options, each a list of what to try.

    `order` says which argument each tensor is, for those that do not come first.
    """
    names = order.split()

    def call(chosen: dict[str, Any]) -> Callable[..., Any]:
        def run_it(m: Any, *tensors: Any) -> Any:
            count = len(tensors) - len(names)
            named = dict(zip(names, tensors[count:]))
            return getattr(m.nn.functional, name)(*tensors[:count], **named, **chosen)

        return run_it

    for values in itertools.product(*options.values()):
        chosen = dict(zip(options, values))
        words = [f"{k}={v}" for k, v in chosen.items()]
        note = f"{len(CASES)} " + " ".join(words).replace(", ", ",")
        CASES.append(Case(name, call(chosen), inputs, note, second))


REDUCTIONS = ["mean", "sum", "none"]

# -- activations ----------------------------------------------------------------------------------

for name in (
    "relu", "relu6", "selu", "silu", "mish", "hardsigmoid", "hardswish", "softsign", "tanhshrink",
    "logsigmoid", "sigmoid", "tanh",
):  # fmt: skip
    if name != "hardsigmoid":  # see tests/ops/samples/table.py
        add(name, floats(3, 4, low=-7.0, high=7.0), second=True)
add("leaky_relu", floats(3, 4), negative_slope=[0.01, 0.2])
add("elu", floats(3, 4), alpha=[1.0, 0.5], second=True)
add("celu", floats(3, 4), alpha=[1.0, 0.5], second=True)
add("gelu", floats(3, 4, low=-5.0, high=5.0), approximate=["none", "tanh"], second=True)
add("hardtanh", floats(3, 4), min_val=[-1.0, -0.2], max_val=[1.0, 0.5])
add("softplus", floats(3, 4), beta=[1, 2.0], threshold=[20, 0.5])
add("softshrink", floats(3, 4), lambd=[0.5, 1])
add("hardshrink", floats(3, 4), lambd=[0.5, 1])
add("threshold", floats(3, 4), threshold=[0.1], value=[20, -1.5])
add("prelu", floats(3, 4), floats(1), second=True)
add("prelu", floats(2, 4, 3), floats(4))
add("prelu", floats(), floats(1))
add("glu", floats(4, 6), dim=[-1, 0], second=True)
for name in ("softmax", "log_softmax", "softmin"):
    add(name, floats(3, 4), dim=[0, 1, -1], second=True)
add("normalize", floats(3, 4), p=[1.0, 2.0, 3.0, 1.5, math.inf], dim=[0, 1])
add("normalize", given(np.zeros((2, 3))), dim=[1])
add("normalize", floats(2, 3, 4), dim=[(1, 2)], second=True)

# -- products -------------------------------------------------------------------------------------

add("linear", floats(3, 4), floats(2, 4))
add("linear", floats(2, 3, 4), floats(2, 4), floats(2), second=True)
add("bilinear", floats(3, 2), floats(3, 4), floats(5, 2, 4), floats(5), second=True)
add("bilinear", floats(2, 3, 2), floats(2, 3, 4), floats(5, 2, 4))
add("embedding", integers(2, 3, high=5), floats(5, 4), second=True)
add("embedding", integers(2, 3, high=5), floats(5, 4), padding_idx=[2, -1])
add("one_hot", integers(2, 3, high=5), num_classes=[-1, 6])

# -- convolution ----------------------------------------------------------------------------------

strides, pads = [1, 2, 3], [0, 1, "valid"]
add("conv1d", floats(2, 3, 9), floats(4, 3, 3), stride=strides, padding=pads, dilation=[1, 2])
add("conv1d", floats(2, 4, 9), floats(6, 2, 3), floats(6), groups=[2], padding=["same", 2])
add("conv_tbc", floats(5, 2, 3), floats(2, 3, 4), floats(4), pad=[0, 1], second=True)
add(
    "conv2d", floats(2, 3, 8, 7), floats(4, 3, 3, 2), floats(4),
    stride=[1, 2, (2, 1)], padding=[0, 1, (2, 1)], dilation=[1, (1, 2)],
)  # fmt: skip
add("conv2d", floats(2, 3, 7, 6), floats(4, 3, 3, 2), padding=["same", "valid"], dilation=[1, 2])
add("conv2d", floats(2, 4, 6, 5), floats(8, 2, 3, 3), floats(8), groups=[2], stride=[1, 2])
add("conv2d", floats(2, 4, 6, 5), floats(8, 1, 3, 3), groups=[4], padding=["same"], second=True)
add("conv2d", floats(2, 16, 6, 5), floats(4, 16, 3, 3), floats(4), padding=[1], second=True)
add("conv2d", floats(2, 18, 5, 5), floats(4, 9, 3, 3), groups=[2], stride=[2], second=True)
add("conv2d", floats(3, 6, 5), floats(4, 3, 3, 3), floats(4))
add("conv2d", floats(2, 3, 6, 5), floats(4, 3, 1, 1), stride=[1, 2], padding=[0, 1], second=True)
add("conv2d", floats(0, 3, 6, 5), floats(4, 3, 2, 2))
add(
    "conv3d", floats(2, 2, 5, 4, 6), floats(3, 2, 2, 3, 2), floats(3), stride=[1, 2], padding=[0, 1]
)
add("conv3d", floats(2, 4, 4, 4, 4), floats(4, 2, 3, 2, 2), groups=[2], padding=["same"])
add(
    "conv_transpose1d", floats(2, 4, 5), floats(4, 3, 3), floats(3),
    stride=[1, 2], padding=[0, 1], dilation=[1, 2],
)  # fmt: skip
add(
    "conv_transpose1d", floats(2, 4, 5), floats(4, 2, 3), groups=[2], stride=[3], output_padding=[2]
)
add(
    "conv_transpose2d", floats(2, 4, 3, 5), floats(4, 3, 3, 2), floats(3),
    stride=[2, (3, 2)], padding=[0, 1], output_padding=[0, 1], second=True,
)  # fmt: skip
add("conv_transpose2d", floats(2, 4, 3, 5), floats(4, 10, 3, 2), groups=[2], dilation=[1, 2])
add("conv_transpose2d", floats(4, 3, 5), floats(4, 1, 2, 2), output_padding=[1], dilation=[2])
add("conv_transpose3d", floats(1, 2, 3, 2, 3), floats(2, 3, 2, 2, 2), stride=[1, 2])

# -- pooling --------------------------------------------------------------------------------------

add("max_pool1d", floats(2, 3, 9), kernel_size=[2, 3], stride=[None, 1, 2], padding=[0, 1])
add(
    "max_pool2d", floats(2, 3, 7, 8), kernel_size=[2, (3, 2)], stride=[None, 1, (2, 1)],
    padding=[0, 1], ceil_mode=[False, True],
)  # fmt: skip
add("max_pool2d", floats(2, 1, 7, 8), kernel_size=[3], dilation=[2], ceil_mode=[False, True])
add("max_pool2d", floats(3, 7, 8), kernel_size=[3], stride=[2], return_indices=[True], padding=[1])
add("max_pool2d", given(np.full((1, 1, 3, 3), -math.inf)), kernel_size=[2], padding=[1])
add("max_pool2d", given([[[[1.0, math.nan, 3.0], [4.0, 4.0, 2.0]]]]), kernel_size=[2], stride=[1])
add("avg_pool1d", floats(2, 3, 9), kernel_size=[2, 3], stride=[None, 1], padding=[0, 1])
add(
    "avg_pool2d", floats(2, 3, 7, 8), kernel_size=[2, (3, 2)], stride=[None, (2, 1)],
    padding=[0, 1], ceil_mode=[False, True], count_include_pad=[False, True],
)  # fmt: skip
add("avg_pool2d", floats(3, 7, 8), kernel_size=[3], divisor_override=[5], second=True)
add("adaptive_avg_pool1d", floats(2, 3, 7), output_size=[1, 3, 7])
add("adaptive_avg_pool2d", floats(2, 3, 7, 6), output_size=[1, 3, (2, 3), (None, 4)])
add("adaptive_max_pool1d", floats(2, 3, 7), output_size=[1, 3, 7], return_indices=[False, True])
add(
    "adaptive_max_pool2d", floats(2, 3, 7, 6),
    output_size=[1, 3, (2, 3), (None, 4), (7, 2)], return_indices=[False, True],
)  # fmt: skip

# -- interpolation --------------------------------------------------------------------------------

add("interpolate", floats(2, 3, 5), size=[5, 10, 7, 3], mode=["nearest", "nearest-exact"])
add("interpolate", floats(2, 3, 4, 5), scale_factor=[2, 1.7, (3, 2)], mode=["nearest", "area"])
add("interpolate", floats(2, 3, 5), size=[10, 7, 3, 1], mode=["linear"], align_corners=[None, True])
for mode in ("bilinear", "bicubic"):
    corners = [False, True]
    image = floats(2, 3, 4, 5)
    add("interpolate", image, size=[(7, 3), (8, 10)], mode=[mode], align_corners=corners)
    add("interpolate", image, scale_factor=[2, 1.7, 0.6], mode=[mode], align_corners=corners)
    add("interpolate", image, scale_factor=[1.7], mode=[mode], recompute_scale_factor=[True])
add("interpolate", floats(1, 2, 3, 4, 5), scale_factor=[2], mode=["nearest", "trilinear"])
add("interpolate", floats(1, 2, 3, 4, 5), size=[(2, 5, 3)], mode=["area"])

# -- normalisation --------------------------------------------------------------------------------

add("layer_norm", floats(3, 4), normalized_shape=[(4,), (3, 4)], eps=[1e-5, 0.1], second=True)
affine = dict(order="weight bias", second=True)
add("layer_norm", floats(2, 3, 4), floats(4), floats(4), normalized_shape=[(4,)], **affine)
add("layer_norm", floats(2, 3, 4), floats(3, 4), floats(3, 4), normalized_shape=[(3, 4)], **affine)
add("layer_norm", floats(2, 3, 4), floats(4), normalized_shape=[(4,)], order="weight")
add("rms_norm", floats(2, 3, 4), normalized_shape=[(4,), (3, 4)], eps=[None, 0.1], second=True)
add("rms_norm", floats(2, 3, 4), floats(4), normalized_shape=[(4,)], order="weight", second=True)
add("group_norm", floats(2, 6, 3), num_groups=[1, 2, 6], second=True)
add("group_norm", floats(2, 6, 3, 2), floats(6), floats(6), num_groups=[1, 2, 6], **affine)
add("group_norm", floats(2, 6), floats(6), num_groups=[2], order="weight")
add("instance_norm", floats(2, 3, 4), second=True)
add("instance_norm", floats(2, 3, 4, 2), floats(3), floats(3), eps=[1e-5, 0.1], **affine)
add("local_response_norm", floats(2, 6, 3, 2), size=[2, 3, 5], alpha=[1e-4, 0.5], k=[1.0, 2.0])
add("local_response_norm", floats(2, 6, 3), size=[3], beta=[0.5], second=True)
statistics = (Fixed(given([0.1, -0.2, 0.3])), Fixed(given([1.5, 0.5, 1.0])))
for shape in ((4, 3), (4, 3, 5), (2, 3, 4, 2)):
    for parameters in ((), (floats(3), floats(3))):
        add("batch_norm", floats(*shape), *statistics, *parameters, eps=[1e-5, 0.1])

# -- attention ------------------------------------------------------------------------------------

heads = (floats(2, 3, 4, 5), floats(2, 3, 6, 5), floats(2, 3, 6, 2))
attention = "scaled_dot_product_attention"
add(attention, *heads, is_causal=[False, True], scale=[None, 0.3], second=True)
add(attention, *heads, floats(4, 6), order="attn_mask", second=True)
add(attention, *heads, floats(2, 1, 4, 6), order="attn_mask")
looks = np.random.default_rng(3).random((2, 1, 4, 6)) > 0.4
looks[..., 0] = True
add(attention, *heads, given(looks), order="attn_mask", second=True)
nowhere = looks.copy()
nowhere[:, :, 1] = False
add(attention, *heads, given(nowhere), order="attn_mask")
add(attention, *heads, Fixed(given(np.where(nowhere, 0.5, -math.inf))), order="attn_mask")
add(attention, floats(3, 5), floats(4, 5), floats(4, 2))
add(attention, floats(2, 4, 3, 5), floats(2, 2, 6, 5), floats(2, 2, 6, 5), enable_gqa=[True])

# -- losses ---------------------------------------------------------------------------------------

classes = Fixed(floats(3, low=0.1))
weight = dict(order="weight")
add(
    "cross_entropy", floats(5, 3), given([0, 2, 1, 1, 0]),
    reduction=REDUCTIONS, ignore_index=[-100, 1], label_smoothing=[0.0, 0.1], second=True,
)  # fmt: skip
add(
    "cross_entropy", floats(5, 3), given([0, 2, 1, 1, 0]), classes,
    reduction=REDUCTIONS, ignore_index=[-100, 1], label_smoothing=[0.0, 0.1], order="weight",
)  # fmt: skip
deep = (floats(2, 3, 4, 2), integers(2, 4, 2))
add("cross_entropy", *deep, reduction=REDUCTIONS, label_smoothing=[0.0, 0.2])
add(
    "cross_entropy",
    *deep,
    classes,
    reduction=REDUCTIONS,
    label_smoothing=[0.2],
    **weight,
)
add("cross_entropy", floats(3), given(1), label_smoothing=[0.0, 0.2])
soft = (floats(4, 3), floats(4, 3, low=0.0, high=1.0))
add("cross_entropy", *soft, reduction=REDUCTIONS, label_smoothing=[0.0, 0.1], second=True)
add(
    "cross_entropy",
    *soft,
    classes,
    reduction=REDUCTIONS,
    label_smoothing=[0.1],
    **weight,
)
add("cross_entropy", floats(2, 3, 4), floats(2, 3, 4, low=0.0), reduction=REDUCTIONS)
add("cross_entropy", floats(3), floats(3, low=0.0), reduction=REDUCTIONS)
add("nll_loss", floats(5, 3), given([0, 2, 1, 1, 0]), reduction=REDUCTIONS, ignore_index=[-100, 1])
add("nll_loss", floats(5, 3), integers(5), classes, reduction=REDUCTIONS, **weight)
add("nll_loss", floats(2, 3, 4, 2), integers(2, 4, 2), reduction=REDUCTIONS)
add("nll_loss", floats(3), given(1), reduction=REDUCTIONS)
pair = (floats(3, 4), floats(3, 4))
for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
    add(name, *pair, reduction=REDUCTIONS, second=True)
add("mse_loss", *pair, floats(3, 4, low=0.1), reduction=REDUCTIONS, order="weight")
add("smooth_l1_loss", *pair, beta=[0.0, 0.3, 2.5], reduction=REDUCTIONS)
add("huber_loss", *pair, delta=[0.3, 2.5], reduction=REDUCTIONS)
near = (floats(3, 4, low=0.05, high=0.95), floats(3, 4, low=0.0, high=1.0))
add("binary_cross_entropy", *near, reduction=REDUCTIONS)
add(
    "binary_cross_entropy",
    *near,
    Fixed(floats(3, 4, low=0.1)),
    reduction=REDUCTIONS,
    order="weight",
)
certain = Fixed(given([0.0, 0.0, 1.0, 1.0]))
add("binary_cross_entropy", given([0.0, 1.0, 0.0, 1.0]), certain)
logits = (floats(3, 4, low=-60.0, high=60.0), floats(3, 4, low=0.0, high=1.0))
with_logits = "binary_cross_entropy_with_logits"
add(with_logits, *logits, reduction=REDUCTIONS, second=True)
add(with_logits, *logits, Fixed(floats(4, low=0.1)), reduction=REDUCTIONS, order="pos_weight")
both = (Fixed(floats(3, 1, low=0.1)), Fixed(floats(4, low=0.1)))
add(with_logits, *logits, *both, order="weight pos_weight")
add("kl_div", floats(3, 4), floats(3, 4, low=0.1), reduction=[*REDUCTIONS, "batchmean"])
add("kl_div", floats(), floats(low=0.1), reduction=[*REDUCTIONS, "batchmean"])
add("kl_div", floats(3), given([-0.5, 0.2, -1.0]), reduction=["none"])
add("kl_div", *pair, log_target=[True], reduction=[*REDUCTIONS, "batchmean"], second=True)
signs = Fixed(given([1.0, -1.0, -1.0, 1.0, 1.0]))
vector = floats(5)
add("margin_ranking_loss", vector, vector, signs, margin=[0.0, 0.5], reduction=REDUCTIONS)
add(
    "hinge_embedding_loss",
    vector,
    given([1, -1, -1, 1, 1]),
    margin=[1.0, 0.5],
    reduction=REDUCTIONS,
)
rows = (floats(5, 3), floats(5, 3))
whole = given([1, -1, -1, 1, 1])
add("cosine_embedding_loss", *rows, whole, margin=[0.0, 0.3], reduction=REDUCTIONS, second=True)
triple = (*rows, floats(5, 3))
add(
    "triplet_margin_loss", *triple,
    margin=[0.2], p=[2, 1, 3.0], swap=[False, True], reduction=REDUCTIONS,
)  # fmt: skip
add("triplet_margin_with_distance_loss", *triple, margin=[1.0], swap=[False, True])
counts = integers(3, 4, high=6)
add("poisson_nll_loss", floats(3, 4), counts, full=[False, True], reduction=REDUCTIONS)
add("poisson_nll_loss", floats(3, 4, low=0.1), counts, log_input=[False])
var = floats(3, 4, low=0.1)
add("gaussian_nll_loss", *pair, var, full=[False, True], reduction=REDUCTIONS, second=True)
add("gaussian_nll_loss", *pair, floats(3, 1, low=0.1), eps=[1e-6, 0.5])
add("gaussian_nll_loss", *pair, floats(3, low=0.1))
add("gaussian_nll_loss", *pair, floats(1, 4, low=0.1))
add("soft_margin_loss", vector, signs, reduction=REDUCTIONS)
add("cosine_similarity", floats(3, 4), floats(3, 4), dim=[0, 1, -1], second=True)
add("cosine_similarity", floats(2, 1, 4), floats(3, 4), dim=[2])
add("pairwise_distance", *rows, p=[1.0, 2.0, 3.0, math.inf], keepdim=[False, True])
add("pairwise_distance", floats(3), floats(4, 3), second=True)

add("pixel_shuffle", floats(2, 8, 3, 4), upscale_factor=[2], second=True)
add("pixel_shuffle", floats(9, 2, 1), upscale_factor=[1, 3])
add("pixel_unshuffle", floats(2, 3, 4, 6), downscale_factor=[1, 2], second=True)
add("channel_shuffle", floats(2, 6, 4), groups=[2, 3], second=True)
add("channel_shuffle", floats(2, 4, 3, 5), groups=[1, 2])

# -- windows and places ---------------------------------------------------------------------------

deep = floats(2, 3, 6, 7, 5)
flat, image = floats(2, 3, 11), floats(2, 3, 8, 9)
add("max_pool3d", deep, kernel_size=[2], stride=[1, 2], return_indices=[False, True])
add("avg_pool3d", deep, kernel_size=[2], padding=[0, 1], count_include_pad=[True, False])
add("adaptive_avg_pool3d", deep, output_size=[1, (3, 2, None)])
add("adaptive_max_pool3d", deep, output_size=[2, (4, 3, 2)], return_indices=[False, True])
add("lp_pool1d", floats(2, 3, 11, low=0.1), norm_type=[3.0], kernel_size=[3], ceil_mode=[True])
add("lp_pool2d", image, norm_type=[2.0], kernel_size=[3, (2, 3)], stride=[None, 2])
add("lp_pool3d", deep, norm_type=[2.0], kernel_size=[2])
for n, x in enumerate((flat, image, deep), 1):
    count = math.prod(x(np.random.default_rng(0)).shape[2:])
    pooled = floats(2, 3, *(2,) * n)
    chosen = given(np.arange(6 * 2**n).reshape(2, 3, *(2,) * n) % 4**n)
    add(f"max_unpool{n}d", pooled, chosen, kernel_size=[2], output_size=[None, (4,) * n])
samples = {n: given(np.linspace(0.1, 0.9, 6 * n).reshape(2, 3, n)) for n in (2, 3)}
for n, x in ((2, image), (3, deep)):
    add(
        f"fractional_max_pool{n}d", x, Fixed(samples[n]),
        order="_random_samples", kernel_size=[2], output_size=[(4, 5, 3)[:n]],
        return_indices=[False, True],
    )  # fmt: skip
add("unfold", image, kernel_size=[2, (2, 3)], dilation=[1, (2, 1)], padding=[(1, 2)], stride=[2])
add("fold", floats(2, 12, 20), output_size=[(5, 6)], kernel_size=[2], second=True)
add("fold", floats(27, 20), output_size=[(8, 9)], kernel_size=[3], padding=[1], stride=[2])
grid = floats(2, 3, 4, 2, low=-1.3, high=1.3)
add(
    "grid_sample", floats(2, 3, 8, 9, low=-0.5, high=0.5), grid,
    mode=["bilinear", "bicubic"], padding_mode=["zeros", "border", "reflection"],
    align_corners=[False, True],
)  # fmt: skip
add("grid_sample", image, Fixed(grid), mode=["nearest"], align_corners=[False])
add("grid_sample", deep, floats(2, 3, 4, 2, 3), align_corners=[False, True])
add("affine_grid", floats(2, 2, 3), size=[(2, 1, 3, 4)], align_corners=[False, True])
add("affine_grid", floats(2, 3, 4), size=[(2, 1, 3, 4, 1)], align_corners=[False, True])

# -- more losses ----------------------------------------------------------------------------------

scores, classes = floats(4, 5), given([0, 3, 1, 1])
add("multi_margin_loss", scores, classes, p=[1, 2], margin=[1.0, 0.5], reduction=REDUCTIONS)
add("multi_margin_loss", scores, classes, Fixed(floats(5, low=0.1)), order="weight")
listed = given([[0, 3, -1, 1, 0], [2, -1, 0, 0, 0], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0]])
add("multilabel_margin_loss", scores, listed, reduction=REDUCTIONS)
add("multilabel_margin_loss", floats(4), given([0, 3, -1, 1]), reduction=REDUCTIONS)
some = Fixed(given([[1.0, 0.0, 1.0, 0.0, 0.0]] * 4))
add("multilabel_soft_margin_loss", scores, some, reduction=REDUCTIONS)
add("multilabel_soft_margin_loss", scores, some, Fixed(floats(5, low=0.1)), order="weight")
add("linear_cross_entropy", floats(3, 4), floats(5, 4), given([0, 4, 2]), reduction=REDUCTIONS)


def ctc(m: Any, scores: Any, targets: Any, **options: Any) -> Any:
    """PyTorch's gradient is that of the scores: its inputs have to be a log softmax."""
    return m.nn.functional.ctc_loss(m.log_softmax(scores, -1), targets, **options)


def add_ctc(scores: Draw, targets: Any, inputs: Any, labels: Any, **options: Any) -> None:
    for how in REDUCTIONS:
        facts = dict(input_lengths=inputs, target_lengths=labels, reduction=how, **options)
        call = lambda m, x, y, facts=facts: ctc(m, x, y, **facts)
        CASES.append(Case("ctc_loss", call, (scores, given(targets)), str(len(CASES)), False))


padded = [[2, 3, 3, 0], [4, 5, 1, 1], [2, 2, 2, 0]]
add_ctc(floats(10, 3, 6), padded, (10, 8, 9), (3, 2, 4), blank=1)
add_ctc(floats(10, 3, 6), [2, 3, 3, 4, 5], (10, 8, 9), (3, 2, 0))
add_ctc(floats(3, 2, 6), [[2, 2, 2, 2], [1, 0, 0, 0]], (3, 3), (4, 1), zero_infinity=True)
add_ctc(floats(7, 6), [2, 2, 4], (7,), (3,))


def upsampled(m: Any, x: Any) -> Any:
    """PyTorch warns of the older name."""
    function = m.nn.functional.upsample if m is gw else m.nn.functional.interpolate
    return function(x, scale_factor=2, mode="linear")


CASES.append(Case("upsample", upsampled, (floats(1, 2, 4),), "", False))

# -- bags -----------------------------------------------------------------------------------------

table = floats(6, 3)
BAGS = dict(mode=["sum", "mean", "max"], padding_idx=[None, 2])
add("embedding_bag", given([[1, 2, 2], [4, 5, 2]]), table, **BAGS)
add("embedding_bag", given([1, 2, 4, 5, 2, 2]), table, given([0, 2, 2, 5]), **BAGS)
add(
    "embedding_bag", given([1, 2, 4]), table, given([0, 2, 3]), floats(3),
    order="per_sample_weights", mode=["sum"], include_last_offset=[True],
)  # fmt: skip
add("rrelu", floats(3, 4), training=[False])
for name in ("celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "selu_"):
    plain = lambda m, x, name=name: getattr(m.nn.functional, name)(x.clone())
    CASES.append(Case(name, plain, (floats(3, 4),), "", False))
clipped = lambda m, x: m.nn.functional.threshold_(x.clone(), 0.1, 20.0)
CASES.append(Case("threshold_", clipped, (floats(3, 4),), "", False))
leaky = lambda m, x: m.nn.functional.rrelu_(x.clone(), training=False)
CASES.append(Case("rrelu_", leaky, (floats(3, 4),), "", False))

every_case = batched("case", CASES, key=lambda case: case.name, quick=2)


def test_every_function_has_cases() -> None:
    random = {
        "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
        "gumbel_softmax",
    }  # fmt: skip
    elsewhere = {  # tests/ops/samples*.py and test_pytorch_samples.py
        "hardsigmoid", "multi_head_attention_forward", "pad", "pdist", "upsample_bilinear",
        "upsample_nearest",
    }  # fmt: skip
    pools = {name for name in F.__all__ if name.endswith("_with_indices")}  # below
    assert set(F.__all__) == {case.name for case in CASES} | random | elsewhere | pools


POOLS = {
    "max_pool1d_with_indices": ((2, 3, 8), (2,)),
    "max_pool2d_with_indices": ((2, 3, 8, 6), (3, 2, 1)),
    "max_pool3d_with_indices": ((2, 3, 4, 6, 4), (2,)),
    "adaptive_max_pool1d_with_indices": ((2, 3, 8), (3,)),
    "adaptive_max_pool2d_with_indices": ((2, 3, 8, 6), ((3, 2),)),
    "adaptive_max_pool3d_with_indices": ((2, 3, 4, 6, 4), (2,)),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_returns_where_its_maxima_are(name: str) -> None:
    shape, options = POOLS[name]
    x = np.random.default_rng(0).standard_normal(shape)
    ours = getattr(F, name)(gw.tensor(x), *options)
    theirs = getattr(torch.nn.functional, name)(torch.tensor(x), *options)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("n", [2, 3])
def test_a_fractional_pool_returns_where_its_maxima_are(n: int) -> None:
    x = gw.randn(1, 2, *(8,) * n)
    pool = getattr(F, f"fractional_max_pool{n}d_with_indices")
    out, indices = pool(x, 2, output_size=3)
    picked = x.flatten(2).gather(2, indices.flatten(2)).reshape(out.shape)
    np.testing.assert_array_equal(out, picked)


@every_case
def test_value_and_gradient(case: Case) -> None:
    call, arrays = case.ready()
    assert_same(run(OURS, call, arrays), run(THEIRS, call, arrays), TIGHT)


@every_case
def test_float32_stays_float32(case: Case) -> None:
    call, arrays = case.ready(np.float32)
    assert_same(run(OURS, call, arrays), run(THEIRS, call, arrays), SINGLE)


@batched("case", [case for case in CASES if case.second], key=lambda case: case.name)
def test_second_derivatives(case: Case) -> None:
    call, arrays = case.ready()
    ours = run(OURS, call, arrays, order=2)
    assert_same(ours, run(THEIRS, call, arrays, order=2), TIGHT_SECOND)
