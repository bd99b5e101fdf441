"""Calls missing from PyTorch's own samples: those of export, and those of other devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tests.torch.aten_calls import Call, calls_of

aten = torch.ops.aten
# In PyTorch 2.8 this name is another operation, for one kind of GPU.
FUSES_RMS_NORM = aten._fused_rms_norm.default._schema.arguments[1].name == "normalized_shape"
# In PyTorch 2.8 the CPU has no kernel for it.
GROUPS_ROWS = torch.__version__ >= "2.10"
_generator = torch.Generator().manual_seed(0)


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=_generator, dtype=torch.float64)


def integers(*shape: int, most: int = 3) -> torch.Tensor:
    return torch.randint(0, most, shape, generator=_generator)


def statistics(channels: int) -> tuple[torch.Tensor, ...]:
    """Weight, bias, running mean and running variance."""
    return floats(channels), floats(channels), floats(channels), floats(channels).abs() + 0.1


def _images() -> list[Call]:
    image, sequence, volume = floats(2, 4, 6, 7), floats(2, 4, 9), floats(1, 2, 4, 5, 6)
    parameters = statistics(4)
    found: list[Call] = [
        (aten.conv1d.default, (sequence, floats(6, 2, 3), floats(6), [2], [1], [1], 2), {}),
        (aten.conv2d.default, (image, floats(3, 4, 3, 2), None, [1, 2], [1, 0], [1, 2]), {}),
        (aten.conv3d.default, (volume, floats(3, 2, 2, 2, 2), floats(3)), {}),
        (aten.convolution.default, (
            image, floats(4, 3, 3, 3), floats(3), [2, 2], [1, 1], [1, 1], True, [1, 0], 1), {}),
        (aten.convolution.default, (
            image, floats(4, 3, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 0], 2), {}),
        (aten.max_pool1d.default, (sequence, [3], [2], [1], [1], True), {}),
        (aten.max_pool2d.default, (image, [2, 3]), {}),
        (aten.max_pool3d.default, (volume, [2, 2, 2], [1, 2, 1], [1, 1, 0]), {}),
        (aten.avg_pool1d.default, (sequence, [3], [2], [1], True, False), {}),
        (aten.avg_pool2d.default, (image, [3, 2], [2, 1], [1, 1], True, True), {}),
        (aten.avg_pool2d.default, (image, [3, 2], [], 0, False, True, 5), {}),
        (aten.adaptive_avg_pool1d.default, (sequence, [4]), {}),
        (aten.adaptive_avg_pool2d.default, (image, [4, 7]), {}),
        (aten.adaptive_avg_pool3d.default, (volume, [1, 1, 1]), {}),
        (aten.reflection_pad2d.default, (image, [1, 2, 0, 3]), {}),
        (aten.reflection_pad3d.default, (volume, [1, 2, 0, 3, 1, 1]), {}),
        (aten.replication_pad3d.default, (volume, [1, 2, 0, 3, 1, 1]), {}),
        (aten.pad.default, (image, [1, -1], "constant", 2.0), {}),
        (aten.pad.default, (image, [1, 1, 0, 2], "reflect"), {}),
        (aten.native_channel_shuffle.default, (image, 2), {}),
        (aten.im2col.default, (image, [3, 2], [1, 2], [1, 0], [2, 1]), {}),
        (aten._native_batch_norm_legit_functional.default, (
            image, *parameters, True, 0.1, 1e-5), {}),
        (aten._native_batch_norm_legit_functional.default, (
            image, *parameters, False, 0.1, 1e-5), {}),
        (aten._native_batch_norm_legit_no_training.default, (image, *parameters, 0.1, 1e-5), {}),
        (aten._native_batch_norm_legit.no_stats, (
            image, *parameters[:2], True, 0.1, 1e-5), {}),
        (aten._batch_norm_with_update_functional.default, (image, *parameters, 0.1, 1e-5), {}),
        (aten._batch_norm_no_update.default, (image, *parameters, 0.1, 1e-5), {}),
    ]  # fmt: skip
    for kind in ("nearest", "nearest_exact"):
        for x in (sequence, image, volume):
            name = f"{'_' if 'exact' in kind else ''}upsample_{kind}{x.dim() - 2}d"
            size = [n + 3 for n in x.shape[2:]]
            packet = getattr(aten, name)
            found.append((packet.default, (x, size), {}))
            found.append((packet.vec, (x, None, [1.5] * (x.dim() - 2)), {}))
    for name, x in (("linear1d", sequence), ("bilinear2d", image), ("trilinear3d", volume)):
        packet = getattr(aten, f"upsample_{name}")
        found.append((packet.vec, (x, None, False, [1.5] * (x.dim() - 2)), {}))
        found.append((packet.vec, (x, [n + 2 for n in x.shape[2:]], True, None), {}))
    found.append((aten.upsample_bicubic2d.vec, (image, [5, 9], False, None), {}))
    for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        packet = getattr(aten, name)
        found.append((packet.default, (image, [4, 11], False), {}))
        found.append((packet.default, (image, [3, 3], False, 0.5, 0.49), {}))
    return found


def attends_in_groups(*given: torch.Tensor) -> bool:
    """Whether attention on the CPU supports grouped queries; older versions copy the keys."""
    calls = calls_of(lambda: F.scaled_dot_product_attention(*given, enable_gqa=True))
    return any("flash_attention" in func.name() for func, *_ in calls)


def _layers() -> list[Call]:
    x, heads = floats(2, 3, 4), floats(2, 2, 5, 4)
    weights = (floats(16, 3), floats(16, 4), floats(16), floats(16))
    single = [w.float() for w in (floats(5, 2, 3), *weights, floats(2, 4), floats(2, 4))]
    # Not reversed, no lengths, an LSTM of width 4 and one layer, with biases.
    rnn: tuple[Any, ...] = (False, [], 2, 4, 1, True, False, False, True)
    hidden = torch.tensor([[True, False, True, True, False]])
    grouped = floats(2, 4, 5, 4), floats(2, 2, 5, 4), floats(2, 2, 5, 4)
    scores = floats(2, 3, 2, 2), integers(2, 2, 2), floats(3).abs()
    total = aten.nll_loss2d_forward.default(*scores, 1, -100)[1]
    found: list[Call] = []
    if FUSES_RMS_NORM:
        found.append((aten._fused_rms_norm.default, (x, [4], floats(4), 1e-5), {}))
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default
    if attends_in_groups(*grouped):
        found += [(attention, grouped, {}), (attention, (*grouped, 0.0, True), {})]
    return [
        *found,
        (aten.nll_loss2d_backward.default, (floats(), *scores, 1, -100, total), {}),
        (aten.layer_norm.default, (x, [4], floats(4), floats(4)), {}),
        (aten.layer_norm.default, (x, [3, 4], floats(3, 4), None), {}),
        (aten.native_layer_norm.default, (x, [2, 3, 4], floats(2, 3, 4), floats(2, 3, 4), 0.1), {}),
        (aten._weight_norm_interface.default, (floats(3, 4), floats(3, 1).abs()), {}),
        (aten.linear.default, (x, floats(5, 4), floats(5)), {}),
        (aten.linear.default, (x, floats(5, 4)), {}),
        (aten.softmax.int, (x, -1), {}),
        (aten.log_softmax.int, (x, 1, torch.float64), {}),
        (aten.nll_loss2d_forward.default, (*scores, 1, -100), {}),
        (aten.nll_loss_nd.default, (floats(4, 3), integers(4), floats(3).abs(), 2, 1), {}),
        (aten.l1_loss.default, (x, floats(2, 3, 4), 1), {}),
        (aten.binary_cross_entropy_with_logits.default, (
            x, floats(2, 3, 4).sigmoid(), floats(4), floats(4), 1), {}),
        (aten.native_dropout.default, (x, 0.3, True), {}),
        (aten.native_dropout.default, (x, 0.3, False), {}),
        (aten.mkldnn_rnn_layer.default, (*single, *rnn), {}),
        (aten.mkldnn_rnn_layer.default, (*single, True, *rnn[1:-2], True, True), {}),
        (aten._scaled_dot_product_flash_attention_for_cpu.default, (heads,) * 3, {}),
        (aten._scaled_dot_product_flash_attention_for_cpu.default, (
            heads, floats(2, 2, 5, 4), floats(2, 2, 5, 4), 0.0, True), {"scale": 0.3}),
        (aten.scaled_dot_product_attention.default, (heads, heads, heads, hidden), {}),
        (aten.scaled_dot_product_attention.default, (heads, heads, heads, floats(5, 5)), {}),
    ]  # fmt: skip


def _small() -> list[Call]:
    x, y, bits = floats(3, 4), floats(3, 4), integers(3, 4, most=9)
    mask = x > 0
    two = torch.tensor([0, 2])
    return [
        (aten._reshape_alias.default, (x, [4, 3], [3, 1]), {}),
        (aten._unsafe_index.Tensor, (x, [None, two]), {}),
        (aten._unsafe_index_put.default, (x, [two], floats(2, 4)), {}),
        (aten.all.dims, (mask, [0, 1]), {}),
        (aten.any.dims, (mask, [-1], True), {}),
        (aten.bitwise_and.Scalar, (bits, 5), {}),
        (aten.bitwise_or.Scalar, (bits, 5), {}),
        (aten.bitwise_xor.Scalar, (bits, 5), {}),
        (aten.bitwise_xor.Tensor, (bits, bits.T.reshape(3, 4)), {}),
        (aten.chunk.default, (x, 3, 1), {}),
        (aten.unsafe_chunk.default, (x, 2, 1), {}),
        (aten.clamp_max.default, (x, 0.2), {}),
        (aten.contiguous.default, (x.T,), {}),
        (aten.copy.default, (x, floats(4)), {}),
        (aten.copy_.default, (x.float(), y), {}),
        (aten.copysign.Scalar, (x, -2.0), {}),
        (aten.detach_copy.default, (bits,), {}),
        (aten.div.Scalar_mode, (x, 0.3), {"rounding_mode": "floor"}),
        (aten.div.Scalar_mode, (x, 0.3), {"rounding_mode": "trunc"}),
        (aten.fill.Tensor, (x, floats()), {}),
        (aten.fill_.Tensor, (x, floats()), {}),
        (aten.floor_divide.Scalar, (x, 0.3), {}),
        (aten.fmod.Scalar, (x, 0.3), {}),
        (aten.remainder.Scalar_Tensor, (2.5, y.abs() + 0.1), {}),
        (aten.isfinite.default, (x / 0,), {}),
        (aten.lift.default, (bits,), {}),
        (aten.lift_fresh_copy.default, (bits,), {}),
        (aten.matmul.default, (x, floats(4)), {}),
        (aten.matmul.default, (floats(2, 3, 4), floats(4, 5)), {}),
        (aten.outer.default, (floats(3), floats(4)), {}),
        (aten.median.dim, (x, 1), {}),
        (aten.narrow.default, (x, 1, 1, 2), {}),
        (aten.norm.Scalar, (x, 3.0), {}),
        (aten.norm.ScalarOpt_dtype, (x, 2.0), {"dtype": torch.float64}),
        (aten.norm.ScalarOpt_dim_dtype, (x, 1.0, [0], True), {"dtype": torch.float64}),
        (aten.positive.default, (x,), {}),
        (aten.relu6.default, (x * 5,), {}),
        (aten.reshape.default, (x.T, [2, -1]), {}),
        (aten.select_copy.int, (x, 1, -1), {}),
        (aten.slice_copy.Tensor, (x, 1, -3, 9, 2), {}),
        (aten.sort.stable, (x,), {"stable": True, "dim": 0, "descending": True}),
        (aten.special_expit.default, (x,), {}),
        (aten.special_ndtr.default, (x,), {}),
        (aten.split.sizes, (x, [1, 3], 1), {}),
        (aten.split_copy.Tensor, (x, 3, 1), {}),
        (aten.unsafe_split_with_sizes.default, (x, [1, 2], 0), {}),
        (aten.square.default, (x,), {}),
        (aten.squeeze_copy.dim, (floats(3, 1), 1), {}),
        (aten.squeeze_copy.dims, (floats(1, 3, 1), [0, -1]), {}),
        (aten.std.default, (x, False), {}),
        (aten.std.dim, (x, [1], True, True), {}),
        (aten.var.default, (x,), {}),
        (aten.var.dim, (x, [0]), {}),
        (aten.where.ScalarOther, (mask, x, 2.0), {}),
        (aten.where.ScalarSelf, (mask, 2.0, x), {}),
        (aten.xlogy.Scalar_Other, (x, 2.0), {}),
        (aten.xlogy.Scalar_Self, (2.0, y.abs()), {}),
        (aten.cat.default, ([torch.zeros(0, dtype=torch.float64), x, y], -1), {}),
        (aten.add_.Tensor, (x, y), {"alpha": 2.5}),
        (aten.transpose_.default, (floats(3, 4), 0, -1), {}),
        (aten.as_strided.default, (floats(3, 1, 4), [3, 1, 4], [4, 9, 1]), {}),
        (aten.as_strided.default, (floats(4, 5), [2, 3, 2], [8, 2, 3], 1), {}),
        (aten.as_strided_copy.default, (floats(4, 5), [3, 4], [0, 5]), {}),
        (aten.mul.Tensor, (x, x), {}),
        (aten._to_copy.default, (x,), {"dtype": torch.bfloat16}),
        (aten.bitwise_not.default, (bits,), {}),
        (aten.cumsum.default, (x, 1), {}),
        (aten.relu.default, (x,), {}),
        (aten.remainder.Scalar, (x, 0.3), {}),
        (aten.triu.default, (x, 1), {}),
        (aten.masked_select.default, (x, mask), {}),
        (aten.linalg_qr.default, (floats(4, 3),), {}),
        (aten.scatter.value, (x, 1, torch.tensor([[0, 2]]), 2.0), {}),
        (
            aten.native_group_norm.default,
            (floats(2, 4, 5), floats(4), floats(4), 2, 4, 5, 2, 0.1),
            {},
        ),
    ]


def _experts() -> list[Call]:
    """The routing of mixtures of experts, whose rows are grouped by expert."""
    import transformers.integrations.moe  # noqa: F401, it registers its operation

    rows, weights = floats(9, 4), floats(3, 4, 8)
    ends = torch.tensor([2, 2, 7], dtype=torch.int32)
    chosen = floats(20).abs() * 5
    found: list[Call] = []
    if GROUPS_ROWS:
        full = torch.tensor([2, 2, 9], dtype=torch.int32)  # rows after the last group are undefined
        found.append((aten._grouped_mm.default, (rows.float(), weights.float(), full), {}))
    return [
        *found,
        (torch.ops.transformers.grouped_mm_fallback.default, (rows, weights, ends), {}),
        (aten.histc.default, (chosen.round(), 4, 0, 3), {}),
        (aten.histc.default, (chosen, 7, -1.0, 3.5), {}),
        (aten.cumsum.default, (integers(5), 0), {"dtype": torch.int32}),
        (aten.cumprod.default, (chosen.float(), 0), {"dtype": torch.float64}),
        (aten.sum.default, (chosen,), {"dtype": torch.float32}),
        (aten.mean.dim, (integers(3, 4), [0], True), {"dtype": torch.float64}),
        (aten.topk.default, (floats(3, 9), 4, -1, True, False), {}),
    ]


def _triangular() -> list[Call]:
    a, b = floats(2, 3, 3) + 3 * torch.eye(3), floats(2, 3, 4)
    solve = aten.linalg_solve_triangular.default
    return [
        (solve, (a, b), {"upper": True}),
        (solve, (a, b), {"upper": False, "unitriangular": True}),
        (solve, (a, b.mT), {"upper": False, "left": False}),
    ]


def _leaves() -> list[Call]:
    x, g = floats(3, 4), {"generator": torch.Generator().manual_seed(0)}
    windows = ("bartlett", "blackman", "hamming", "hann", "kaiser")
    found: list[Call] = [(getattr(aten, f"{name}_window").default, (5,), {}) for name in windows]
    return [
        *found,
        (aten.fill.Scalar, (x, 0.3), {}),
        (aten.zero.default, (x,), {}),
        (aten.bernoulli_.float, (x, 0.3), {}),
        (aten.bernoulli.p, (x, 0.3), {}),
        (aten.normal_functional.default, (x,), {}),
        (aten.rand.generator, ([2, 3],), g),
        (aten.rand_like.default, (x,), {}),
        (aten.randn_like.default, (x,), {}),
        (aten.randint.generator, (5, [2]), g),
        (aten.randint.low_generator, (1, 5, [2]), g),
        (aten.randn.generator, ([2, 3],), g),
        (aten.random_.default, (x,), {}),
        (aten.random_.to, (x, 5), {}),
        (getattr(aten.random_, "from"), (x, 1, 5), {}),
        (aten.randperm.default, (4,), {}),
        (aten.randperm.generator, (4,), g),
        (aten.tril_indices.default, (3, 3), {}),
        (aten.triu_indices.default, (3, 3), {}),
    ]


def complex_calls() -> list[Call]:
    """Calls with complex operands, and those that make them."""
    z, w, x = (torch.complex(floats(3, 4), floats(3, 4)) for _ in range(3))
    real, deep = floats(4), torch.complex(floats(2, 3, 4), floats(2, 3, 4))
    found: list[Call] = [
        (getattr(aten, name).default, (z,), {})
        for name in ("neg", "clone", "alias", "detach", "abs", "angle", "view_as_real", "_conj",
                     "_conj_physical", "conj_physical", "_to_copy")
    ]  # fmt: skip
    transforms: list[Call] = []
    for way in range(3):
        transforms += [
            (aten._fft_c2c.default, (deep, [2, 0], way, way == 0), {}),
            (aten._fft_r2c.default, (floats(3, 5), [1], way, way == 0), {}),
            (aten._fft_r2c.default, (floats(3, 4, 2), [0, 1], way, way != 0), {}),
            (aten._fft_c2r.default, (deep, [0, 1], way, 4 + way % 2), {}),
        ]
    return [
        *found,
        *transforms,
        (aten.add.Tensor, (z, w), {"alpha": 2.0}),
        (aten.sub.Tensor, (z, deep), {}),
        (aten.select.int, (deep, -2, 1), {}),
        (aten.slice.Tensor, (deep, -1, 1, 3), {}),
        (aten.transpose.int, (deep, -1, 0), {}),
        (aten.squeeze.dim, (z[:, :1], -1), {}),
        (aten.unsqueeze.default, (z, -1), {}),
        (aten.cat.default, ([z, w], -1), {}),
        (aten.stack.default, ([z, w, x], -1), {}),
        (aten.flip.default, (deep, [-1, 0]), {}),
        (aten.sum.dim_IntList, (deep, [-1], True), {}),
        (aten.sum.dim_IntList, (deep, None), {}),
        (aten.mean.dim, (deep, [-2, 0]), {}),
        (aten.split.Tensor, (deep, 2, -1), {}),
        (aten.split_with_sizes.default, (deep, [1, 3], -1), {}),
        (aten.unbind.int, (z, -1), {}),
        (aten.index_select.default, (z, -1, torch.tensor([2, 0, 2])), {}),
        (aten.view.default, (z, [2, -1]), {}),
        (aten._unsafe_view.default, (z, [6, 2]), {}),
        (aten.reshape.default, (z, [12]), {}),
        (aten.expand.default, (z, [2, -1, 4]), {}),
        (aten.permute.default, (deep, [2, -3, 1]), {}),
        (aten.mul.Tensor, (z, w), {}),
        (aten.mul.Tensor, (z, real), {}),
        (aten.mul.Tensor, (real, z), {}),
        (aten.mul.Tensor, (z, 2.5), {}),
        (aten.mul.Scalar, (z, 2.5), {}),
        (aten.div.Tensor, (z, w), {}),
        (aten.div.Tensor, (z, real), {}),
        (aten.div.Scalar, (z, 2.5), {}),
        (aten.mm.default, (z, w.T), {}),
        (aten.bmm.default, (deep, deep.mT), {}),
        (aten.complex.default, (real, floats(4)), {}),
        (aten.polar.default, (real.abs(), floats(4)), {}),
        (aten.view_as_complex.default, (floats(3, 2),), {}),
        (aten._to_copy.default, (real,), {"dtype": torch.complex128}),
    ]


def own_calls() -> list[Call]:
    real = [*_images(), *_layers(), *_small(), *_experts(), *_triangular(), *_leaves()]
    return real + complex_calls()


def calls_elsewhere() -> list[tuple[Any, tuple[Any, ...], dict[str, Any], Callable[..., Any]]]:
    """Calls that run only on other devices, and the same computation with calls for the CPU."""
    heads = floats(2, 2, 5, 4)
    image, parameters = floats(2, 4, 3, 3), statistics(4)

    def causal() -> torch.Tensor:
        return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)

    def batch() -> torch.Tensor:
        weight, bias, mean, var = parameters
        return F.batch_norm(image, mean, var, weight, bias)

    return [
        (aten._scaled_dot_product_flash_attention.default, (heads,) * 3 + (0.0, True), {}, causal),
        (aten._scaled_dot_product_efficient_attention.default,
         (heads,) * 3 + (None, True, 0.0, True), {}, causal),
        (aten._scaled_dot_product_cudnn_attention.default,
         (heads,) * 3 + (None, True, 0.0, True), {}, causal),
        (aten._scaled_dot_product_fused_attention_overrideable.default,
         (heads,) * 3 + (None, 0.0, True), {}, causal),
        (aten.cudnn_batch_norm.default, (image, *parameters, False, 0.1, 1e-5), {}, batch),
        (aten.miopen_batch_norm.default, (image, *parameters, False, 0.1, 1e-5), {}, batch),
    ]  # fmt: skip
