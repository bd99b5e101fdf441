"""Every translation is what PyTorch computes: values, and the gradient of every operand."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from gradwalk.inspect.trace import replay
from gradwalk.ops import TABLE as OPS
from gradwalk.torch.translate import LEAF, entry_name, translate
from gradwalk.torch.translate.table import ON_PAIRS, TABLE
from tests.torch.aten_calls import Call, as_node, calls_of, check, same, samples_of, tensors_in
from tests.torch.own_calls import (
    FUSES_RMS_NORM,
    GROUPS_ROWS,
    calls_elsewhere,
    complex_calls,
    floats,
    own_calls,
)

aten = torch.ops.aten

# Of PyTorch's list of operations with samples (op_db), those whose samples, between them, call
# whatever any of its samples calls that has a translation.
NAMES = """
    __getitem__ __rsub__ _batch_norm_with_update _native_batch_norm_legit acos acosh addbmm
    addcdiv addcmul addmv addr alias_copy all aminmax any argmax asin asinh atan atan2 atanh
    bucketize cauchy clamp clamp_max clamp_min combinations copysign cosh cov cummax cummin
    deg2rad diag empty_permuted empty_strided erf erfc erfinv exp2 expand_copy expm1 exponential
    eye fft.fftshift floor floor_divide fmax fmin fmod frac full_like geometric heaviside hypot
    index_copy index_select inner isclose isinf kthvalue lerp lgamma linalg.cholesky
    linalg.cross linalg.det linalg.matrix_rank linalg.slogdet linalg.solve linalg.tensorinv
    linspace log10 log1p log2 log_normal logaddexp logaddexp2 logcumsumexp logical_xor logspace
    logsumexp masked.amin masked.argmin masked.cumprod masked.log_softmax masked_fill max median
    min nan_to_num nanmean nanquantile narrow_copy native_batch_norm native_group_norm
    native_layer_norm new_empty new_full nn.functional.adaptive_avg_pool3d
    nn.functional.adaptive_max_pool2d nn.functional.avg_pool3d
    nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
    nn.functional.celu nn.functional.channel_shuffle nn.functional.conv3d nn.functional.elu
    nn.functional.embedding nn.functional.fractional_max_pool2d nn.functional.gaussian_nll_loss
    nn.functional.gelu nn.functional.glu nn.functional.hardshrink nn.functional.hardsigmoid
    nn.functional.hardswish nn.functional.hardtanh nn.functional.huber_loss
    nn.functional.interpolate nn.functional.leaky_relu nn.functional.local_response_norm
    nn.functional.logsigmoid nn.functional.max_pool1d nn.functional.max_pool3d
    nn.functional.mish nn.functional.mse_loss nn.functional.multi_head_attention_forward
    nn.functional.multilabel_soft_margin_loss nn.functional.nll_loss nn.functional.normalize
    nn.functional.pad nn.functional.pairwise_distance nn.functional.pixel_shuffle
    nn.functional.prelu nn.functional.silu nn.functional.smooth_l1_loss
    nn.functional.soft_margin_loss nn.functional.softplus nn.functional.softshrink
    nn.functional.threshold nn.functional.upsample_nearest nonzero normal permute_copy pow prod
    qr rad2deg rand_like randint randint_like randn remainder rot90 round searchsorted select
    select_scatter sigmoid sign sinc slice_scatter special.i1e special.polygamma
    split_with_sizes split_with_sizes_copy sqrt squeeze squeeze_copy std std_mean stft svd
    t_copy take take_along_dim tan tanh topk torch.ops.aten._safe_softmax.default trace
    transpose_copy trunc unbind_copy unfold unfold_copy uniform unsafe_split unsqueeze_copy var
    var_mean vdot view_copy xlogy zero_
"""
PER_ENTRY = 3  # different calls of each that are checked


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Thousands of tiny operations: several threads would only wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def calls() -> dict[str, list[Call]]:
    """Calls of every entry, by its name."""
    torch.manual_seed(0)
    found: dict[str, list[Call]] = {}
    known: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        programs = list(samples_of(set(NAMES.split()), most=2))
        several = [call for program in programs for call in calls_of(program)]
    for call in several:
        name, key = entry_name(call[0]), _described(call)
        if key not in known and len(found.get(name, ())) < PER_ENTRY:
            known.add(key)
            found.setdefault(name, []).append(call)
    for call in own_calls():
        found.setdefault(entry_name(call[0]), []).append(call)
    return found


def _described(call: Call) -> str:
    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{tuple(value.shape)} {value.dtype}"
        return str([text(v) for v in value]) if isinstance(value, (list, tuple)) else repr(value)

    return f"{call[0]} {text(call[1])} {text(sorted(call[2].items()))}"


def test_values_and_gradients_are_those_of_torch(calls: dict[str, list[Call]]) -> None:
    wrong = []
    for name, several in calls.items():
        for func, args, kwargs in several:
            try:
                check(func, args, kwargs)
            except AssertionError as error:
                wrong.append(f"{name} ({_described((func, args, kwargs))}): {error}")
    assert not wrong, "\n\n".join(wrong)


def test_every_translation_is_met(calls: dict[str, list[Call]]) -> None:
    elsewhere = {entry_name(func) for func, *_ in calls_elsewhere()}
    elsewhere |= set() if FUSES_RMS_NORM else {"_fused_rms_norm.default"}
    elsewhere |= set() if GROUPS_ROWS else {"_grouped_mm.default"}
    assert set(TABLE) == set(calls) - (set(ON_PAIRS) - set(TABLE)) | elsewhere
    complex_operands = {
        entry_name(func)
        for func, args, _ in complex_calls()
        if any(tensor.is_complex() for tensor in tensors_in(args))
    }
    assert set(ON_PAIRS) == complex_operands


def test_operations_of_other_devices_are_those_of_this_one() -> None:
    for func, args, kwargs, here in calls_elsewhere():
        known = translate(func, args, kwargs)
        assert known is not None
        trace, node = as_node(known, args, kwargs, [here()])
        same(replay.forward(trace, node)[0], here(), str(func))


def test_entries_name_overloads_and_ops_that_exist() -> None:
    for name in TABLE | ON_PAIRS:
        packet, overload = name.rsplit(".", 1)
        library, _, packet = packet.rpartition("::")
        home = getattr(torch.ops, library or "aten")
        kinds = [getattr(home, p) for p in (packet, f"{packet}_") if hasattr(home, p)]
        assert any(overload in kind.overloads() for kind in kinds), name


@pytest.mark.parametrize(
    "func, args, kwargs",
    [
        (aten.add.Tensor, (torch.ones(2, dtype=torch.complex64), 1), {}),
        (aten.mul.Tensor, (torch.eye(2).to_sparse(), 2.0), {}),
        (aten.sum.default, (torch.ones(2),), {"dtype": torch.complex64}),
        (aten.exp.default, (torch.ones(2, dtype=torch.int64),), {}),
        (aten._softmax.default, (torch.ones(2, dtype=torch.float16), 0, True), {}),
        (aten.embedding.default, (torch.ones(3, 2), torch.tensor([1]), -1, True), {}),
        (aten.linalg_qr.default, (torch.ones(2, 3),), {}),
        (aten._linalg_eigh.default, (torch.eye(2),), {}),
        (aten.exp.default, (torch.ones(2, dtype=torch.complex64),), {}),
        (aten.mul.Tensor, (torch.ones(2, dtype=torch.complex64), 1j), {}),
        (aten.as_strided.default, (torch.ones(9)[3:6], [2], [1], 0), {}),
        (aten.as_strided.default, (torch.ones(2, 3).T, [2], [1]), {}),
        (torch.ops.prims.sin.default, (torch.ones(2),), {}),
        (
            aten.scaled_dot_product_attention.default,
            (torch.ones(1, 2, 3, 4),) * 3 + (None, 0.1),
            {},
        ),
    ],
    ids=lambda value: str(value) if callable(value) else "",
)
def test_what_we_cannot_express_stays_unknown(func: Any, args: Any, kwargs: Any) -> None:
    assert translate(func, args, kwargs) is None


def test_operands_are_the_tensors_of_the_call_itself() -> None:
    bias, x, weight = floats(3), floats(2, 4), floats(4, 3)
    known = translate(aten.addmm.default, (bias, x, weight), {"beta": 2})
    assert known is not None and known.op == "addmm"
    assert all(a is b for a, b in zip(known.args, (bias, x, weight), strict=True))
    assert known.attrs == {"beta": 2, "alpha": 1} and known.outputs == (0,)


def test_an_operation_in_place_is_the_one_out_of_place() -> None:
    x, y = floats(2), floats(2)
    assert translate(aten.add_.Tensor, (x, y), {}) == translate(aten.add.Tensor, (x, y), {})


def test_outputs_that_are_not_ours_are_left_out() -> None:
    known = translate(aten.native_layer_norm.default, (floats(2, 3), [3], None, None, 1e-5), {})
    assert known is not None and known.outputs == (0,)
    known = translate(aten.max.dim, (floats(2, 3), 1), {})
    assert known is not None and known.outputs == (0, 1)


def test_constants_and_random_numbers_are_leaves() -> None:
    for func, args in ((aten.zeros.default, ([2],)), (aten.bernoulli_.float, (floats(2), 0.5))):
        known = translate(func, args, {})
        assert known is not None and known.op == LEAF and not known.args


def test_half_precision_is_translated_as_any_other() -> None:
    x = floats(3, 4).bfloat16()
    known = check(aten.mm.default, (x, x.T), {})
    assert known.op == "matmul" and OPS[known.op].forward(np.eye(2), np.eye(2)).sum() == 2
