"""PyTorch's own samples of every function that both have: its `op_db`, made for testing itself.

Each sample is called as a function, as a method, by its operators, in place, with `out=` and under
its other names. Values, dtypes, shapes and gradients must be PyTorch's, and where PyTorch refuses a
sample we must refuse it too.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
import unittest
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched
from tests.project.test_coming_from_pytorch import PROMISED

pytestmark = pytest.mark.slow

# Samples of one function, evenly spread, by dtype; some functions have thousands.
DTYPES = {torch.float64: 40, torch.float32: 40, torch.int64: 40, torch.bool: 40}
DTYPES[torch.uint8] = 10
TOLERANCE = {"float64": dict(rtol=1e-7, atol=1e-7), "float32": dict(rtol=1e-4, atol=1e-4)}
TOLERANCE["complex64"] = TOLERANCE["float32"]
LARGEST = 20_000  # elements of a tensor

PREFIXES = {
    "torch": "",
    "torch.Tensor": "",
    "torch.linalg": "linalg.",
    "torch.nn.functional": "nn.functional.",
}
LISTED = [prefix + name for space, prefix in PREFIXES.items() for name in PROMISED[space].split()]
# What we have beside the names that were asked for.
BESIDE = """
    __getitem__ __radd__ __rand__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rsub__ __rxor__
    abs acos add addmv addr allclose aminmax arange argwhere asin atan atleast_1d atleast_2d
    atleast_3d bfloat16 bincount half bitwise_and bitwise_not bitwise_or bitwise_xor block_diag bool
    broadcast_shapes broadcast_tensors byte cartesian_prod char clamp_max clamp_min clone
    column_stack combinations contiguous corrcoef cos cosh cov cross cummin cumulative_trapezoid
    diagflat diff dist div double dsplit dstack empty empty_like eq equal erf exp expm1 eye fliplr
    flipud float floor fmax fmin full full_like ge gt histc hsplit index_copy index_fill int isclose
    isin isneginf isposinf isreal item le linalg.cross linalg.diagonal linalg.eigvalsh
    linalg.matrix_norm linalg.multi_dot linalg.svdvals linalg.vecdot linalg.vector_norm linspace log
    log1p log_softmax logdet logical_and logical_not logical_or logical_xor logspace long lt maximum
    minimum msort mul ne neg new_empty new_full new_ones new_zeros nn.functional.alpha_dropout
    nn.functional.channel_shuffle nn.functional.conv_transpose3d nn.functional.dropout3d
    nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.prelu
    nn.functional.soft_margin_loss nn.functional.triplet_margin_with_distance_loss nonzero ones
    ones_like polygamma positive pow quantile reshape_as round rsqrt short sigmoid sign signbit sin
    sinh softmax special.ndtr special.polygamma split_with_sizes sqrt square std_mean sub t tan tanh
    tensor_split to transpose trapezoid trapz tril_indices triu_indices var_mean vdot view_as vsplit
    zeros zeros_like
    nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool3d nn.functional.avg_pool3d
    nn.functional.ctc_loss nn.functional.embedding_bag nn.functional.feature_alpha_dropout
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.grid_sample nn.functional.linear_cross_entropy nn.functional.max_pool3d
    nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d
    nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss
    nn.functional.multilabel_soft_margin_loss nn.functional.rrelu nn.functional.unfold
    empty_strided new_empty_strided
"""
# Rare functions, compared only here: as a function, as a method and in place.
RARE = """
    addbmm alias_copy as_strided as_strided_copy as_strided_scatter bitwise_left_shift
    bitwise_right_shift cauchy cholesky cholesky_inverse cholesky_solve constant_pad_nd
    diagonal_copy diagonal_scatter expand_copy exponential fill frexp gcd geometric geqrf
    gradient histogram histogramdd i0 igamma igammac index_reduce lcm ldexp linalg.cholesky_ex
    linalg.cond linalg.eig linalg.eigvals linalg.householder_product linalg.inv_ex linalg.lstsq
    linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matrix_rank
    linalg.solve_ex linalg.solve_triangular linalg.tensorinv linalg.tensorsolve linalg.vander
    log_normal lu lu_solve lu_unpack masked.amax masked.amin masked.argmax masked.argmin
    masked.cumprod masked.cumsum masked.log_softmax masked.logaddexp masked.logsumexp
    masked.mean masked.median masked.norm masked.normalize masked.prod masked.softmax
    masked.softmin masked.std masked.sum masked.var masked_scatter matrix_exp mode mvlgamma
    nanmedian nanquantile narrow_copy nextafter nn.functional.pdist
    nn.functional.upsample_bilinear nn.functional.upsample_nearest nonzero_static ormqr
    pca_lowrank permute_copy pinverse put qr renorm rsub scalar_tensor scatter_reduce
    select_scatter signal.windows.bartlett signal.windows.blackman signal.windows.cosine
    signal.windows.exponential signal.windows.gaussian signal.windows.general_cosine
    signal.windows.general_hamming signal.windows.hamming signal.windows.hann
    signal.windows.kaiser signal.windows.nuttall slice_scatter special.airy_ai special.bessel_j0
    special.bessel_j1 special.bessel_y0 special.bessel_y1 special.chebyshev_polynomial_t
    special.chebyshev_polynomial_u special.chebyshev_polynomial_v special.chebyshev_polynomial_w
    special.entr special.erfcx special.hermite_polynomial_h special.hermite_polynomial_he
    special.i0e special.i1 special.i1e special.laguerre_polynomial_l
    special.legendre_polynomial_p special.log_ndtr special.modified_bessel_i0
    special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1
    special.ndtri special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
    special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
    special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w
    special.spherical_bessel_j0 special.xlog1py special.zeta split_with_sizes_copy squeeze_copy
    sum_to_size svd svd_lowrank t_copy transpose_copy triangular_solve unbind_copy unfold_copy
    uniform unique_consecutive unravel_index unsafe_chunk unsafe_split unsqueeze_copy view_copy
    grid_sampler_2d grid_sampler_3d linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve
    native_batch_norm native_group_norm native_layer_norm
    __rdiv__ _native_batch_norm_legit _segment_reduce _upsample_bilinear2d_aa empty_permuted
    empty_strided max_pool2d_with_indices_backward new_empty_strided
    nn.functional.multi_head_attention_forward resize_ resize_as_ slice to_sparse zero_
"""
# Functions that take or give complex numbers.
COMPLEX = """
    H angle cdouble cfloat complex conj conj_physical fft.fft fft.fft2 fft.fftn fft.fftshift
    fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.ihfft fft.ihfft2
    fft.ihfftn fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn imag istft mH polar
    real resolve_conj resolve_neg stft view_as_complex view_as_real
"""
NAMES = list(dict.fromkeys([*LISTED, *BESIDE.split(), *RARE.split(), *COMPLEX.split()]))


@dataclass(frozen=True)
class Known:
    """A difference that is meant: what is not compared, in which calls, and why."""

    left_out: str  # of "values", "indices" (all outputs but the first), "gradients"; "calls" is all
    why: str
    dtype: str = ""  # names; without any, all of them
    when: Callable[[Any], bool] = lambda sample: True


TIES = "of equal elements we name the first, PyTorch any of them (docs/pytorch/differences.md)"
RANDOM = "drawn at random"
KNOWN: dict[str, Known] = {
    "all": Known("calls", "it is bool (docs/pytorch/differences.md)", "uint8"),
    "any": Known("calls", "it is bool (docs/pytorch/differences.md)", "uint8"),
    "full_like": Known("calls", "-2 does not fit", "uint8", lambda s: s.args[0] < 0),
    "scalar_tensor": Known("calls", "-5 does not fit", "uint8", lambda s: s.input < 0),
    "masked.logsumexp": Known("values", "floats that are cut to integers", "uint8"),
    "_upsample_bilinear2d_aa": Known("values", "it may differ by one", "uint8"),
    "max_pool2d_with_indices_backward": Known("gradients", "the sample asks for the first"),
    "nn.functional.interpolate.bilinear": Known("values", "it may differ by one", "uint8"),
    "nn.functional.interpolate.bicubic": Known("values", "it may differ by one", "uint8"),
    "nn.functional.cosine_embedding_loss": Known(
        "values", "a target of 255 is not -1 (docs/pytorch/differences.md)", "uint8"
    ),
    "topk": Known("indices", TIES, "int64 uint8"),
    "mode": Known("indices gradients", TIES),
    "special.bessel_j0": Known("values", "PyTorch's has an error of 2e-7", "float64"),
    "special.bessel_j1": Known("values", "PyTorch's has an error of 2e-7", "float64"),
    "histogramdd": Known(
        "values", "edges that are not in order", "float64",
        lambda s: not isinstance(s.args[0][0], int),
    ),
    "kthvalue": Known("indices", TIES, "int64 uint8"),
    "sort": Known("indices", TIES, "bool uint8", lambda s: not s.kwargs.get("stable")),
    "argsort": Known("values", TIES, "bool uint8", lambda s: not s.kwargs.get("stable")),
    "logcumsumexp": Known("gradients", "PyTorch's has an error of 0.4 %, ours of 1e-6", "float32"),
    "nn.functional.layer_norm": Known(
        "gradients", "of one element it is 0; PyTorch's is what rounding left", "float32",
        lambda s: s.input.numel() == 1,
    ),
    "linalg.pinv.hermitian": Known(
        "gradients", "the samples are not symmetric, and PyTorch's mixes both triangles"
    ),
    "svd_lowrank": Known(
        "values gradients", "PyTorch's is an estimate", when=lambda s: "M" in s.kwargs
    ),
    "as_strided_scatter": Known(
        "gradients", "PyTorch's gradient of input is that of the places that were replaced"
    ),
    "cholesky_inverse": Known(
        "gradients", "PyTorch's is not zero at elements that it does not read"
    ),
    "linalg.householder_product": Known(
        "gradients", "PyTorch's have errors of up to 2e-4, ours of 3e-7", "float32"
    ),
    "nn.functional.ctc_loss": Known(
        "gradients", "PyTorch's is that of the scores (docs/pytorch/differences.md)"
    ),
    "nn.functional.multi_head_attention_forward": Known(
        "values gradients", RANDOM, when=lambda s: s.args[9] > 0
    ),
    "nn.functional.rrelu": Known(
        "values gradients", RANDOM, when=lambda s: bool(s.kwargs.get("training"))
    ),
    "nn.functional.scaled_dot_product_attention": Known(
        "values gradients", RANDOM, when=lambda s: s.kwargs.get("dropout_p", 0) > 0
    ),
    **{
        name: Known("values gradients", RANDOM)
        for name in ("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "uniform",
                     "multinomial", "normal", "normal.number_mean", "normal.in_place",
                     "rand_like", "randn", "randn_like", "randint", "randint_like", "empty",
                     "empty_permuted", "empty_strided", "new_empty_strided",
                     "empty_like", "new_empty", "nn.functional.dropout", "nn.functional.dropout2d",
                     "nn.functional.dropout3d", "nn.functional.alpha_dropout",
                     "nn.functional.feature_alpha_dropout.with_train",
                     "nn.functional.feature_alpha_dropout.without_train",
                     "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d")
    },
}  # fmt: skip
# Error inputs that have an answer here: part of PyTorch's message -> why.
ANSWERED = {
    r"should be the same": "an operand of another dtype is promoted (docs/pytorch/differences.md)",
    r"Expected self.dtype to be equal to src.dtype": "the same",
    r"optional 0 dim batch size": "no channels, so nothing comes out",
    r"Expected out tensor to have dtype": "out= of a wider dtype holds the result",
    r"for argument 'out'": "out= of complex64 holds complex128, as for other functions",
    r"unsupported operation": "all operands are read before out= is written",
    r"refer to a single memory location": "the same",
    r"non-batch dimensions to have positive length": "no channels, so nothing comes out",
    r"Expected object of scalar type": "the same",
    r"multinomial expects Long tensor out": "the same",
}
# In PyTorch, but not the same in gradwalk: addbmm_ gives a tensor that is broadcast another shape.
NO_METHODS = {"__rdiv__", "addbmm_", "orgqr"}
# Functions whose `out=` is not compared: of the network functions none is documented, and PyTorch's
# transforms do not write to it.
NO_OUT = ("nn.", "native_", "_native_", "_upsample", "fft.ihfft2", "fft.ihfftn")
NUMPY = {getattr(torch, name): np.dtype(name) for name in (
    "float64", "float32", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128",
)}  # fmt: skip


@functools.cache
def database() -> dict[str, list[Any]]:
    """PyTorch's descriptions of its functions, by name."""
    # Importing it brings in packages and settings that are meant for PyTorch's own test runs.
    profile = hypothesis.settings.get_current_profile_name()
    try:
        importlib.import_module("expecttest")
    except ImportError:
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # all that is used of it
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module("torch.testing._internal.common_methods_invocations")
    hypothesis.settings.load_profile(profile)
    found = defaultdict(list)
    for description in module.op_db:
        if description.variant_test_name != "partial_views":  # of memory that NumPy does not show
            found[description.name].append(description)
    return found


def quietly(call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """PyTorch warns of many things that are not asked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **keywords)


# -- a sample in gradwalk --------------------------------------------------------------------------


class NotOurs(Exception):
    """The sample has something we do not know: half precision, other layouts."""


def computed(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without a gradient and with the numbers it stands for, as NumPy needs it."""
    return tensor.detach().resolve_conj().resolve_neg()


def translated(thing: Any, leaves: list[Any]) -> Any:
    """What a sample holds, with our tensors for PyTorch's; those that need a gradient are noted."""
    if isinstance(thing, torch.Tensor):
        if thing.dtype not in NUMPY or thing.layout is not torch.strided or thing.ndim > 64:
            raise NotOurs
        if thing.is_meta:  # it has no numbers
            raise NotOurs
        if thing.numel() > LARGEST:
            raise NotOurs
        tensor = gw.from_numpy(computed(thing).numpy())  # with the same strides
        if thing.requires_grad:
            leaves.append(tensor.requires_grad_())
        return tensor
    if isinstance(thing, torch.dtype):
        if thing not in NUMPY:
            raise NotOurs
        return NUMPY[thing]
    if isinstance(thing, (torch.memory_format, torch.layout, torch.Generator)):
        raise NotOurs
    if isinstance(thing, torch.nn.Module):
        return getattr(gw.nn, type(thing).__name__)()
    if isinstance(thing, (list, tuple)):
        return (list if isinstance(thing, list) else tuple)(translated(t, leaves) for t in thing)
    if isinstance(thing, dict):
        return {key: translated(value, leaves) for key, value in thing.items()}
    return str(thing) if isinstance(thing, torch.device) else thing


def as_leaves(thing: Any, leaves: list[Any]) -> Any:
    """The same sample, with fresh leaves in place of what the samples were computed from."""
    if isinstance(thing, torch.Tensor):
        if not thing.requires_grad:
            return thing
        leaves.append(thing.detach().requires_grad_())
        return leaves[-1]
    if isinstance(thing, torch.Size):
        return thing
    if isinstance(thing, (list, tuple)):
        return (list if isinstance(thing, list) else tuple)(as_leaves(t, leaves) for t in thing)
    if isinstance(thing, dict):
        return {key: as_leaves(value, leaves) for key, value in thing.items()}
    return thing


@functools.cache
def our_names(module: str) -> dict[str, Any]:
    """What a module of test code knows, with ours as `torch`."""
    return {**vars(sys.modules[module]), "torch": gw}


def in_gradwalk(function: Any) -> Any:
    """A small function of PyTorch's test code that calls `torch.something`, calling ours."""
    if isinstance(function, functools.partial):
        return functools.partial(by_name(f"nn.functional.{function.func.__name__}"), inplace=True)
    if not isinstance(function, types.FunctionType) or "torch" not in function.__globals__:
        return None
    if not function.__module__.startswith("torch.testing"):
        return None
    names = our_names(function.__module__)
    ours = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    ours.__kwdefaults__ = function.__kwdefaults__
    return ours


def our_function(description: Any) -> Any:
    """What a description is about, here: a function or, without one, a method; None if neither."""
    name = description.name
    return OTHERWISE.get(name) or in_gradwalk(description.get_op()) or by_name(name)


def antialiased(x: Any, output_size: Any, align_corners: bool, *args: Any, **scales: Any) -> Any:
    factors = scales.get("scale_factors")
    if args or scales.get("scales_h") is not None:  # a size, and scales that do not lead to it
        raise NotOurs
    given = {"size": output_size} if factors is None else {"scale_factor": factors}
    return gw.nn.functional.interpolate(
        x, mode="bilinear", align_corners=align_corners, antialias=True, **given
    )


def sliced(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[(slice(None),) * dim + (slice(start, end, step),)]


def normalized_batch(x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    statistics = () if len(rest) == 5 else (None, None)  # running ones may be left out
    return gw.native_batch_norm(x, weight, bias, *statistics, *rest)


def gradient_of_max_pool(x: Any, **options: Any) -> Any:
    x = x.detach().requires_grad_()
    out, _ = gw.nn.functional.max_pool2d_with_indices(x, **options)
    return gw.autograd.grad(out, [x], gw.ones_like(out))[0]


# Steps of PyTorch under a private name, and what programs call.
OTHERWISE = {
    "__rdiv__": gw.Tensor.__rtruediv__,
    "_native_batch_norm_legit": normalized_batch,
    "_segment_reduce": gw.segment_reduce,
    "_upsample_bilinear2d_aa": antialiased,
    "max_pool2d_with_indices_backward": gradient_of_max_pool,
    "slice": sliced,
}


def by_name(name: str) -> Any:
    found: Any = gw
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else getattr(gw.Tensor, name, None)


def variants(description: Any) -> Iterator[tuple[Any, Any, str]]:
    """The function, the method and the in-place method: ours, PyTorch's, and which it is."""
    yield our_function(description), description.get_op(), "function"
    found = {"method": description.get_method(), "in place": description.get_inplace()}
    for kind, theirs in found.items():
        name = getattr(theirs, "__name__", "")
        if theirs is None or name in NO_METHODS:
            continue
        yield in_gradwalk(theirs) or method_named(name), theirs, kind
    operators = (description.operator_variant, description.inplace_operator_variant)
    for kind, operator in zip(("operator", "in place operator"), operators, strict=True):
        if operator is not None:
            yield operator, operator, kind
    for other in description.aliases:
        if other.op is not None:
            yield by_name(other.name.removeprefix("torch.")), other.op, f"as {other.name}"
        name = getattr(other.method_variant, "__name__", "")
        if name and name not in NO_METHODS:
            yield method_named(name), other.method_variant, "other method"
    if description.supports_out and not description.name.startswith(NO_OUT):
        yield into(our_function(description), gw), into(description.get_op(), torch), "out="


def method_named(name: str) -> Callable[..., Any]:
    return lambda x, *args, **keywords: getattr(x, name)(*args, **keywords)


def into(function: Any, library: Any) -> Callable[..., Any]:
    """The function, called with `out=` tensors of its own."""

    def call(*args: Any, **keywords: Any) -> Any:
        args = tuple(a.detach() if isinstance(a, library.Tensor) else a for a in args)
        with library.no_grad():
            result = function(*args, **keywords)
            if isinstance(result, library.Tensor):
                out: Any = library.empty_like(result)
                assert function(*args, out=out, **keywords) is out
                return out
            out = tuple(library.empty_like(part) for part in result)
            function(*args, out=out, **keywords)
            return out

    return call


# -- the comparison --------------------------------------------------------------------------------


def flat(found: Any) -> list[Any]:
    if isinstance(found, (list, tuple)):
        return [part for several in found for part in flat(several)]
    return [found]


def difference(one: Any, other: Any, what: str) -> str:
    """How two arrays differ, "" if they do not."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{what}: {one.dtype} {one.shape}, in PyTorch {other.dtype} {other.shape}"
    tolerance = TOLERANCE.get(str(other.dtype), TOLERANCE["float64"])
    if np.allclose(one, other, equal_nan=True, **tolerance):
        return ""
    apart = ~np.isclose(one, other, equal_nan=True, **tolerance)
    place = tuple(np.argwhere(apart)[0].tolist())
    return f"{what} at {place}: {one[place]}, in PyTorch {other[place]}"


def compared(ours: Any, theirs: Any, leaves: list[Any], their_leaves: list[Any], left: str) -> str:
    """The first difference of two results."""
    found, expected = flat(ours), flat(theirs)
    if len(found) != len(expected):
        return f"{len(found)} outputs, in PyTorch {len(expected)}"
    roots = []
    for position, (one, other) in enumerate(zip(found, expected)):
        if not isinstance(other, torch.Tensor):
            if one != NUMPY.get(other, other) and not (one != one and other != other):
                return f"output {position} is {one}, in PyTorch {other}"
            continue
        if other.dtype not in NUMPY:
            raise NotOurs
        if other.layout is not torch.strided:
            one, other = one.to_dense(), other.to_dense()
        a, b = one.detach().numpy(), computed(other).numpy()
        if "values" in left or ("indices" in left and position):
            a = b if a.shape == b.shape and a.dtype == b.dtype else a
        text = difference(a, b, f"output {position}")
        if text:
            return text
        if "gradients" in left:
            continue
        if one.requires_grad != other.requires_grad:
            return f"output {position}: requires_grad is {one.requires_grad}"
        if other.requires_grad:
            roots.append((one, other))
    if not roots or not leaves:
        return ""
    source = np.random.default_rng(0)
    weights = [_weights(source, one.shape, one.dtype) for one, _ in roots]
    seeds = [torch.from_numpy(w.copy()) for w in weights]
    try:
        theirs = torch.autograd.grad([t for _, t in roots], their_leaves, seeds, allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return ""  # PyTorch has no derivative of it
    mine = [gw.from_numpy(w) for w in weights]
    for position, (one, other, leaf) in enumerate(
        zip(
            gw.autograd.grad([o for o, _ in roots], leaves, mine, allow_unused=True), theirs, leaves
        )
    ):
        zero = np.zeros(leaf.shape, leaf.dtype)
        expected_gradient = zero if other is None else computed(other).numpy(force=True)
        text = difference(
            zero if one is None else one.numpy(), expected_gradient, f"gradient {position}"
        )
        if text:
            return text
    return ""


def _weights(source: np.random.Generator, shape: Any, dtype: np.dtype[Any]) -> Any:
    """Gradients of an output; of complex ones both parts."""
    drawn: Any = source.uniform(0.5, 1.5, shape)
    if dtype.kind == "c":
        drawn = drawn + 1j * source.uniform(0.5, 1.5, shape)
    return np.asarray(drawn, dtype)


def outcome(sample: Any, ours: Any, theirs: Any, kind: str, left: str) -> str:
    """What is wrong with one call, "" if nothing is."""
    leaves: list[Any] = []
    their_leaves: list[Any] = []
    try:
        mine = translated([sample.input, list(sample.args), sample.kwargs], leaves)
    except NotOurs:
        return ""
    own = as_leaves([sample.input, list(sample.args), sample.kwargs], their_leaves)
    if kind.startswith("in place"):  # of a leaf both refuse it
        mine[0], own[0] = mine[0].clone(), own[0].clone()
    try:
        expected = quietly(theirs, own[0], *own[1], **own[2])
    except Exception:
        return ""
    finish = sample.output_process_fn_grad
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of ours; NumPy's stay errors
            found = ours(mine[0], *mine[1], **mine[2])
        try:  # the part of a decomposition that is determined
            found, expected = finish(found), finish(expected)
        except Exception:
            pass
        return compared(found, expected, leaves, their_leaves, left)
    except NotOurs:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def drawn(description: Any, dtype: Any, requires_grad: bool) -> list[Any]:
    """All samples; always the same."""
    torch.default_generator.manual_seed(1)
    # Its method `sample_inputs` looks for the name of the test on the stack: most of the time.
    return list(description.sample_inputs_func(description, "cpu", dtype, requires_grad))


def mistakes(description: Any) -> list[Any]:
    """Samples that PyTorch refuses."""
    found = description.error_inputs_func
    return [] if found is None else list(found(description, "cpu"))


def full_name(description: Any) -> str:
    return f"{description.name}.{description.variant_test_name}".rstrip(".")


@pytest.mark.parametrize("name", NAMES)
def test_as_pytorch(name: str) -> None:
    wrong = []
    for description in database()[name]:
        known = KNOWN.get(full_name(description), Known("", ""))
        calls = list(variants(description))
        for dtype, most in DTYPES.items():
            if not description.supports_dtype(dtype, "cpu"):
                continue
            needs = dtype in description.supported_backward_dtypes("cpu")
            needs = needs and description.supports_autograd
            samples = quietly(drawn, description, dtype, needs)
            for sample in samples[:: -(-len(samples) // most) or 1]:
                differs = str(dtype).removeprefix("torch.") in known.dtype.split()
                skips = (differs or not known.dtype) and known.when(sample)
                left = known.left_out if skips else ""
                for ours, theirs, kind in calls if "calls" not in left else ():
                    # The method is the function: its gradient is not taken a second time.
                    skipped = left if kind in ("function", "in place") else left + " gradients"
                    text = outcome(sample, ours, theirs, kind, skipped)
                    if text:
                        shapes = sample.summary()
                        wrong.append(f"{full_name(description)} {kind} {dtype}: {text}\n  {shapes}")
    assert not wrong, f"{len(wrong)} samples differ:\n" + "\n".join(wrong[:5])


@batched("name", NAMES, key=lambda name: name[0])
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    for description in database()[name]:
        for mistake in quietly(mistakes, description):
            sample, ours = mistake.sample_input, our_function(description)
            numbers = [sample.input, *sample.args[:1]]
            if any(isinstance(x, (int, float)) for x in numbers) and mistake.error_regex == "":
                continue  # our functions take numbers too
            if any(part in str(mistake.error_regex).replace("\\", "") for part in ANSWERED):
                continue
            try:
                mine = translated([sample.input, list(sample.args), sample.kwargs], [])
            except NotOurs:
                continue
            with pytest.raises((TypeError, ValueError, IndexError, RuntimeError)):
                quietly(ours, mine[0], *mine[1], **mine[2])
                pytest.fail(f"{full_name(description)} took {sample.summary()}")


def test_nothing_that_both_have_is_left_out() -> None:
    both = {name for name, found in database().items() if found and by_name(name)}
    # Of sparse samples, tested in their own file.
    others = {"sparse.mm"}
    assert both - others <= set(NAMES)
    described = {full_name(d) for name in NAMES for d in database()[name]}
    assert set(KNOWN) <= described
