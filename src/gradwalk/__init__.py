"""gradwalk: reverse-mode automatic differentiation in which nothing is hidden."""

import builtins as _builtins
import importlib as _importlib
from math import e, inf, nan, pi

from numpy import dtype, finfo, iinfo, newaxis

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from gradwalk import autograd as autograd
from gradwalk.tensors import creation as _creation
from gradwalk import cuda as cuda
from gradwalk.random import sampling as _sampling
from gradwalk import linalg as linalg
from gradwalk import data as data
from gradwalk import io as io
from gradwalk import nn as nn
from gradwalk import optim as optim
from gradwalk import special as special
from gradwalk import studio as studio
from gradwalk import utils as utils
from gradwalk.tensors.creation import *
from gradwalk.engine.foreign import loaders as _loaders
from gradwalk.tensors.devices import device
from gradwalk.engine.checkpoint import checkpoint
from gradwalk.engine.errors import AutogradError
from gradwalk.engine.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from gradwalk.engine.saved import saved_bytes
from gradwalk.engine.transforms import (
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    value_and_grad,
    vjp,
)
from gradwalk.graph.source import set_source_lines
from gradwalk.ops.core.dtypes import (
    bool_ as bool,
    float32 as float,
    float32,
    float64 as double,
    float64,
    get_default_dtype,
    int16,
    int16 as short,
    int32 as int,
    int32,
    int64,
    int64 as long,
    int8,
    promote_types,
    set_default_dtype,
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
from gradwalk.random.generator import Generator, get_rng_state, manual_seed, set_rng_state
from gradwalk.random.sampling import *
from gradwalk.scalar.value import Value
from gradwalk.tensors.tensor import Tensor
from gradwalk.engine.threads import get_num_threads, set_num_threads

# The op families: each lists its public names in its own `__all__`, so adding an op touches one
# file. Five names belong to an op with plain attributes as well; people mean the functions.
from gradwalk.ops.elementwise import activation as _activation
from gradwalk.ops import aliases as _aliases
from gradwalk.ops.elementwise import arithmetic as _arithmetic
from gradwalk.ops.shape import joining as _arranging
from gradwalk.ops.elementwise import choice as _choice
from gradwalk.ops.elementwise import comparison as _comparing
from gradwalk.ops.index import indexing as _index
from gradwalk.ops.linear import matmul as _linalg
from gradwalk.ops.network import softmax as _loss
from gradwalk.ops.linear import decompositions as _decompositions
from gradwalk.ops.shape import rearranging as _layout
from gradwalk.ops.reduce import norms as _norms
from gradwalk.ops.index import picking as _picking
from gradwalk.ops.linear import products as _products
from gradwalk.ops.reduce import measures as _measures
from gradwalk.ops.reduce import scan as _scan
from gradwalk.ops.reduce import reduction as _reduction
from gradwalk.ops.elementwise import remainders as _remainders
from gradwalk.ops.shape import reshaping as _shape
from gradwalk.ops.reduce import sorting as _sorting
from gradwalk.ops.elementwise import special as _special
from gradwalk.ops.reduce import statistics as _statistics
from gradwalk.ops.elementwise import trigonometry as _trigonometry
from gradwalk.ops.elementwise.activation import *
from gradwalk.ops.aliases import *
from gradwalk.ops.elementwise.arithmetic import *
from gradwalk.ops.shape.joining import *
from gradwalk.ops.elementwise.choice import *
from gradwalk.ops.elementwise.comparison import *
from gradwalk.ops.index.indexing import *
from gradwalk.ops.linear.matmul import *
from gradwalk.ops.network.softmax import *
from gradwalk.ops.linear.decompositions import *
from gradwalk.ops.shape.rearranging import *
from gradwalk.ops.reduce.norms import *
from gradwalk.ops.index.picking import *
from gradwalk.ops.linear.products import *
from gradwalk.ops.reduce.measures import *
from gradwalk.ops.reduce.scan import *
from gradwalk.ops.reduce.reduction import *
from gradwalk.ops.elementwise.remainders import *
from gradwalk.ops.shape.reshaping import *
from gradwalk.ops.reduce.sorting import *
from gradwalk.ops.elementwise.special import *
from gradwalk.ops.reduce.statistics import *
from gradwalk.ops.elementwise.trigonometry import *
from gradwalk.ops.methods.elementwise import raised as pow
from gradwalk.ops.shape.reshaping import cat as concatenate
from gradwalk.ops.shape.reshaping import flip_over as flip
from gradwalk.ops.shape.reshaping import permute_to as permute
from gradwalk.ops.shape.reshaping import reshape_to as reshape

Size: type[tuple[_builtins.int, ...]] = tuple  # what `Tensor.shape` is

__version__ = "0.1.0"

if _TYPE_CHECKING:
    from gradwalk.compiler.function import TraceError as TraceError, compile as compile
    from gradwalk.inspect import *

__all__ = [
    "AutogradError", "Generator", "Op", "OpError", "Tensor", "Value", "autograd", "bool",
    "checkpoint", "data", "define", "derivative", "double", "elementwise", "enable_grad", "float",
    "float32", "float64", "formula", "get_default_dtype", "get_rng_state", "grad",
    "hessian", "hvp", "inference_mode", "int", "int16", "int32",
    "int64", "int8", "io", "is_grad_enabled", "jacfwd", "jacrev", "jvp", "load", "load_run",
    "long", "manual_seed", "nn", "no_grad", "optim", "promote_types", "save", "save_run",
    "saved_bytes", "set_default_dtype",
    "set_grad_enabled", "set_rng_state", "set_source_lines", "uint8", "value_and_grad", "vjp",
]  # fmt: skip

__all__ += ["Size", "cuda", "device", "dtype", "e", "finfo", "iinfo", "inf", "nan", "newaxis", "pi"]
__all__ += ["get_num_threads", "set_num_threads", "short", "special", "utils"]
__all__ += ["concatenate", "flip", "linalg", "permute", "pow", "reshape", "studio"]
__all__ += _creation.__all__
__all__ += _sampling.__all__
__all__ += _activation.__all__
__all__ += _aliases.__all__
__all__ += _arithmetic.__all__
__all__ += _arranging.__all__
__all__ += _choice.__all__
__all__ += _comparing.__all__
__all__ += _index.__all__
__all__ += _linalg.__all__
__all__ += _loss.__all__
__all__ += _decompositions.__all__
__all__ += _layout.__all__
__all__ += _norms.__all__
__all__ += _picking.__all__
__all__ += _products.__all__
__all__ += _measures.__all__
__all__ += _scan.__all__
__all__ += _reduction.__all__
__all__ += _remainders.__all__
__all__ += _shape.__all__
__all__ += _sorting.__all__
__all__ += _special.__all__
__all__ += _statistics.__all__
__all__ += _trigonometry.__all__
# The tools that look inside a computation are imported when one of them is asked for: training
# needs none of them.
_INSIDE = (
    "Monitor", "Trace", "audit", "bugs", "compare", "derive", "element", "every_order",
    "expression", "find_nan", "gradcheck", "gradgradcheck", "health", "load_trace", "nudge",
    "open_op", "record", "run_order",
    "run_recipes", "save_trace", "saved_memory", "scope", "show", "unfolded", "walk", "why",
    "why_no_grad",
)  # fmt: skip
_COMPILER = ("TraceError", "compile")  # likewise
__all__ += _INSIDE
__all__ += _COMPILER
__all__.sort()


_loaders["torch"] = lambda: _importlib.import_module("gradwalk.torch.guest")


def __getattr__(name: str) -> _Any:
    if name in _COMPILER:
        from gradwalk.compiler import function

        globals()[name] = getattr(function, name)
        return globals()[name]
    if name in ("torch", "testing"):
        return _importlib.import_module(f"gradwalk.{name}")
    if name not in _INSIDE:
        raise AttributeError(f"module 'gradwalk' has no attribute '{name}'")
    from gradwalk import inspect

    found = getattr(inspect, name)
    # A module that is imported again (a test runner does) takes the place of its function.
    found = getattr(found, name, found)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_INSIDE, *_COMPILER})
