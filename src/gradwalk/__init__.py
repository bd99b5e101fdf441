"""gradwalk: reverse-mode automatic differentiation in which nothing is hidden."""

import builtins as _builtins
import importlib as _importlib
import sys as _sys
from math import e, inf, nan, pi

from numpy import dtype, newaxis

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from gradwalk import accelerator as accelerator
from gradwalk import amp as amp
from gradwalk import autograd as autograd
from gradwalk import backends as backends
from gradwalk.tensors import creation as _creation
from gradwalk import cpu as cpu
from gradwalk import cuda as cuda
from gradwalk.random import alike as _alike
from gradwalk.random import counts as _counts
from gradwalk.random import sampling as _sampling
from gradwalk import fft as fft
from gradwalk import linalg as linalg
from gradwalk import masked as masked
from gradwalk import data as data
from gradwalk import distributed as distributed
from gradwalk import func as func
from gradwalk import hub as hub
from gradwalk import io as io
from gradwalk import jit as jit
from gradwalk import nn as nn
from gradwalk import optim as optim
from gradwalk import sparse as sparse
from gradwalk import signal as signal
from gradwalk import special as special
from gradwalk import studio as studio
from gradwalk import utils as utils
from gradwalk.utils import _C as _utils_C
from gradwalk.utils import _dynamo as _utils_dynamo
from gradwalk.utils import futures as _utils_futures
from gradwalk.utils import fx as _utils_fx
from gradwalk.utils import overrides as _utils_overrides
from gradwalk.utils import types as _utils_types
from gradwalk.utils import serialization as _utils_serialization
from gradwalk.utils.asserting import _assert as _assert, _assert_async as _assert_async
from gradwalk.utils.asserting import _check as _check
from gradwalk import version as version
from gradwalk.backends import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    set_flush_denormal,
    use_deterministic_algorithms,
)
from gradwalk.tensors.creation import *
from gradwalk.nn.functional import top_level as _top_level
from gradwalk.nn.functional.top_level import *
from gradwalk.autograd.jacobians import hessian, jacfwd, jacrev
from gradwalk.engine.guest_loaders import loaders as _loaders
from gradwalk.amp import GradScaler
from gradwalk.cuda import OutOfMemoryError
from gradwalk.tensors.autocast import (
    autocast,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    get_autocast_gpu_dtype,
    is_autocast_cpu_enabled,
    is_autocast_enabled,
)
from gradwalk.utils.dlpack import to_dlpack
from gradwalk.distributed import Mesh, distribute
from gradwalk.tensors.devices import device, get_default_device, set_default_device
from gradwalk.engine.checkpoint import checkpoint
from gradwalk.engine.errors import AutogradError
from gradwalk.engine.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from gradwalk.engine.saved import saved_bytes
from gradwalk.tensors.single_calls import get_eager_kernels, set_eager_kernels
from gradwalk.engine.transforms import (
    grad,
    hvp,
    jvp,
    value_and_grad,
    vjp,
)
from gradwalk.graph.source import set_source_lines
from gradwalk.graph.storage import UntypedStorage
from gradwalk.ops.core.dtypes import (
    bfloat16 as _bfloat16,
    bool_ as bool,
    can_cast,
    complex128 as cdouble,
    complex128,
    complex64 as cfloat,
    complex64,
    float16,
    float16 as half,
    float32 as float,
    float32,
    float64 as double,
    float64,
    finfo,
    iinfo,
    get_default_dtype,
    get_float32_matmul_precision,
    int16,
    int16 as short,
    int32 as int,
    int32,
    int64,
    int64 as long,
    int8,
    promote_types,
    result_type,
    set_default_dtype,
    set_float32_matmul_precision,
    uint16,
    uint32,
    uint64,
    uint8,
)
from gradwalk.ops.core.op import Op, OpError, define, elementwise
from gradwalk.io import (
    load,
    load_run,
    save,
    save_run,
)
from gradwalk.printers.formulas.formula import derivative, formula
from gradwalk.printers.tensor_text import set_printoptions
from gradwalk.random.alike import *
from gradwalk.random.counts import *
from gradwalk.random.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from gradwalk.random.sampling import *
from gradwalk.random import sobol as quasirandom
from gradwalk.signal import window_functions as _windows
from gradwalk.signal.window_functions import *
from gradwalk.scalar.value import Value
from gradwalk.sparse import sparse_coo_tensor, sparse_csr_tensor, spmm
from gradwalk.tensors import legacy as _legacy
from gradwalk.tensors.legacy import *
from gradwalk.tensors.size import Size
from gradwalk.tensors.tensor import Tensor
from gradwalk.engine.threads import (
    get_num_interop_threads,
    get_num_threads,
    set_num_interop_threads,
    set_num_threads,
)

from gradwalk.ops import names as _names
from gradwalk.ops.names import *

__version__ = "0.1.0"

# PyTorch's names of memory formats. They are accepted as hints: elements stay in row-major order.
preserve_format, contiguous_format = "preserve_format", "contiguous_format"
channels_last, channels_last_3d = "channels_last", "channels_last_3d"
strided = Tensor.layout  # of every tensor that is not sparse
sparse_coo = sparse.SparseTensor.layout
sparse_csr = sparse.CompressedRows.layout
sparse_csc, sparse_bsr, sparse_bsc = "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc"
detach = Tensor.detach
layout = memory_format = str  # what annotations name

if _TYPE_CHECKING:
    from gradwalk.batching.vmap import VmapError as VmapError, vmap as vmap
    from gradwalk.compiler.compiled_function import TraceError as TraceError, compile as compile
    from gradwalk.inspect import *

__all__ = [
    "AutogradError", "Generator", "Op", "OpError", "Tensor", "Value", "autograd", "bool",
    "can_cast", "checkpoint", "data", "define", "derivative", "double", "elementwise",
    "enable_grad", "float",
    "float32", "float64", "formula", "get_default_dtype", "get_rng_state", "grad",
    "hessian", "hvp", "inference_mode", "initial_seed", "int", "int16", "int32",
    "int64", "int8", "io", "is_grad_enabled",
    "is_inference_mode_enabled", "jacfwd", "jacrev", "jvp", "load", "load_run",
    "long", "manual_seed", "nn", "no_grad", "optim", "promote_types", "result_type", "save",
    "save_run", "saved_bytes", "seed", "set_default_dtype",
    "set_grad_enabled", "set_rng_state", "set_source_lines", "uint8", "value_and_grad", "vjp",
]  # fmt: skip

__all__ += ["Size", "cuda", "device", "dtype", "e", "finfo", "iinfo", "inf", "nan", "newaxis", "pi"]
__all__ += ["channels_last", "channels_last_3d", "contiguous_format", "preserve_format", "strided"]
__all__ += ["detach", "layout", "memory_format", "uint16", "uint32", "uint64"]
__all__ += ["get_default_device", "set_default_device"]
__all__ += ["default_generator"]
__all__ += ["get_eager_kernels", "set_eager_kernels"]
__all__ += ["get_num_threads", "set_num_threads", "short", "special", "utils"]
__all__ += ["get_num_interop_threads", "hub", "jit", "set_num_interop_threads", "version"]
__all__ += [
    "cdouble",
    "cfloat",
    "complex128",
    "complex64",
    "fft",
    "linalg",
    "masked",
    "quasirandom",
    "signal",
    "studio",
]
__all__ += ["amp", "get_float32_matmul_precision", "set_float32_matmul_precision"]
__all__ += ["autocast", "float16", "get_autocast_dtype", "half", "is_autocast_enabled"]
__all__ += ["Mesh", "distribute", "distributed"]
__all__ += ["are_deterministic_algorithms_enabled", "backends", "set_printoptions"]
__all__ += ["use_deterministic_algorithms", "get_deterministic_debug_mode", "set_flush_denormal"]
__all__ += [
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "sparse_coo",
]
__all__ += [
    "Event",
    "GradScaler",
    "OutOfMemoryError",
    "Stream",
    "UntypedStorage",
    "to_dlpack",
    "is_autocast_cpu_enabled",
]
__all__ += ["get_autocast_cpu_dtype", "get_autocast_gpu_dtype"]
__all__ += ["accelerator", "cpu", "func", "sparse", "sparse_coo_tensor", "spmm"]
__all__ += ["sparse_bsc", "sparse_bsr", "sparse_csc", "sparse_csr", "sparse_csr_tensor"]
__all__ += ["Future", "SymBool", "SymFloat", "SymInt"]
__all__ += _creation.__all__
__all__ += _legacy.__all__
__all__ += _sampling.__all__
__all__ += _alike.__all__
__all__ += _counts.__all__
__all__ += _top_level.__all__
__all__ += _windows.__all__
__all__ += _names.__all__
# The tools that look inside a computation are imported when one of them is asked for: training
# needs none of them.
_INSIDE = (
    "Monitor", "Trace", "audit", "bugs", "compare", "derive", "doctor", "element", "every_order",
    "expression", "find_nan", "gradcheck", "gradgradcheck", "health", "load_trace", "nudge",
    "open_op", "record", "run_order",
    "run_recipes", "save_trace", "saved_memory", "scope", "show", "unfolded", "walk", "why",
    "why_no_grad",
)  # fmt: skip
_COMPILER = ("TraceError", "compile")  # likewise
_BATCHING = ("VmapError", "vmap")  # likewise
__all__ += _INSIDE
__all__ += _COMPILER
__all__ += _BATCHING
__all__.sort()


# So are the modules that few programs use.
_SELDOM = (
    "compiler", "distributions", "einops", "hub", "jit", "multiprocessing", "onnx", "profiler",
    "testing", "torch",
)  # fmt: skip

# PyTorch has these at the top.
_C, fx, serialization = _utils_C, _utils_fx, _utils_serialization
__config__ = version
_sys.modules["gradwalk._C"], _sys.modules["gradwalk.fx"] = _C, fx
_sys.modules["gradwalk.serialization"] = serialization
_dynamo, overrides, types = _utils_dynamo, _utils_overrides, _utils_types
futures, Future = _utils_futures, _utils_futures.Future
_inductor = _dynamo._inductor
for _name in ("_dynamo", "futures", "overrides", "types"):
    _sys.modules[f"gradwalk.{_name}"] = globals()[_name]
nn.common_types = _sys.modules["gradwalk.nn.common_types"] = types  # type: ignore[attr-defined]
utils.model_zoo = _sys.modules["gradwalk.utils.model_zoo"] = hub  # type: ignore[attr-defined]
_sys.modules["gradwalk.functional"] = _sys.modules[__name__]  # where PyTorch has `einsum`, `norm`
Event, Stream = cuda.Event, cuda.Stream
SymBool, SymFloat, SymInt = types.SymBool, types.SymFloat, types.SymInt

_loaders["batching"] = lambda: _importlib.import_module("gradwalk.batching.vmap")
_loaders["compiler"] = lambda: _importlib.import_module("gradwalk.compiler")
_loaders["einops"] = lambda: _importlib.import_module("gradwalk.einops").register()
if "einops" in _sys.modules:  # otherwise the first module registers us
    _loaders["einops"]()
_loaders["kernels"] = lambda: _importlib.import_module("gradwalk.compiler.eager_kernels")
_loaders["torch"] = lambda: _importlib.import_module("gradwalk.torch.guest")
_loaders["xla"] = lambda: _importlib.import_module("gradwalk.compiler.backends.xla.machine")


def __getattr__(name: str) -> _Any:
    if name in _COMPILER:
        from gradwalk.compiler import compiled_function

        globals()[name] = getattr(compiled_function, name)
        return globals()[name]
    if name in _BATCHING:
        from gradwalk.batching import vmap

        globals()[name] = getattr(vmap, name)
        return globals()[name]
    if name == "functional":
        return _sys.modules[__name__]
    if name == "bfloat16":  # NumPy has it from ml_dtypes, which need not be installed
        return _bfloat16()
    if name in ("chalf", "complex32"):  # no tensor has it, so programs may ask which one does
        return dtype([("real", float16), ("imag", float16)])
    if name in _SELDOM:
        return _importlib.import_module(f"gradwalk.{name}")
    if name.startswith("_foreach_"):
        from gradwalk.utils import _foreach_utils

        if (function := _foreach_utils.find(name)) is not None:
            return function
    if name in ("mps", "xpu"):
        return _importlib.import_module("gradwalk.backends.absent")
    if name.endswith("_") and not name.startswith("_") and hasattr(Tensor, name):
        return getattr(Tensor, name)  # in-place methods as functions: relu_(x), exp_(x)
    if name not in _INSIDE:
        raise AttributeError(f"module 'gradwalk' has no attribute '{name}'")
    from gradwalk import inspect

    tool = getattr(inspect, name)
    # A module that is imported again (a test runner does) takes the place of its function.
    tool = getattr(tool, name, tool)
    globals()[name] = tool
    return tool


def diff(  # type: ignore[no-redef]
    input: _Any, n: _Any = 1, *rest: _Any, **options: _Any
) -> _Any:
    """Differences between neighbours in a tensor, or between two computations.

    `diff(tensor, n=1, dim=-1, prepend=None, append=None)` is PyTorch's `diff`. `diff(a, b)` of two
    traces, trace files, models or functions that should be equal names the first operation that
    differs; see `gradwalk.inspect.diff`.

    >>> import gradwalk as gw
    >>> gw.diff(gw.tensor([1.0, 4.0, 9.0]))
    tensor([3., 5.])
    """
    if isinstance(n, _builtins.int):
        return _names.diff(input, n, *rest, **options)
    from gradwalk import inspect

    tool = inspect.diff
    return getattr(tool, "diff", tool)(input, n, *rest, **options)


def __dir__() -> list[str]:
    return sorted({*globals(), *_INSIDE, *_COMPILER, *_BATCHING})
