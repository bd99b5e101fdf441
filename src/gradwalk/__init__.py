"""gradwalk: reverse-mode automatic differentiation in which nothing is hidden."""

from gradwalk import autograd as autograd
from gradwalk import creation as _creation
from gradwalk import nn as nn
from gradwalk import optim as optim
from gradwalk.creation import *
from gradwalk.engine.checkpoint import checkpoint
from gradwalk.engine.errors import AutogradError
from gradwalk.engine.gradcheck import (
    gradcheck,
    gradgradcheck,
)
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
from gradwalk.ops.dtypes import (
    bool_ as bool,
    float32 as float,
    float32,
    float64 as double,
    float64,
    get_default_dtype,
    int16,
    int32 as int,
    int32,
    int64,
    int64 as long,
    int8,
    promote_types,
    set_default_dtype,
    uint8,
)
from gradwalk.ops.op import (
    Op,
    OpError,
    define,
    elementwise,
)
from gradwalk.printers.formula import (
    derivative,
    formula,
)
from gradwalk.random import (
    Generator,
    get_rng_state,
    manual_seed,
    set_rng_state,
)
from gradwalk.scalar import Value
from gradwalk.tensor import Tensor
from gradwalk.ops import public as _public
from gradwalk.ops.public import *

__version__ = "0.1.0"

_MORE = [
    "AutogradError", "Generator", "Op", "OpError", "Tensor", "Value", "autograd", "bool",
    "checkpoint", "define", "derivative", "double", "elementwise", "enable_grad", "float",
    "float32", "float64", "formula", "get_default_dtype", "get_rng_state", "grad",
    "gradcheck", "gradgradcheck", "hessian", "hvp", "inference_mode", "int", "int16", "int32",
    "int64", "int8", "is_grad_enabled", "jacfwd", "jacrev", "jvp", "long", "manual_seed",
    "nn", "no_grad", "optim", "promote_types", "saved_bytes", "set_default_dtype",
    "set_grad_enabled", "set_rng_state", "set_source_lines", "uint8", "value_and_grad", "vjp",
]  # fmt: skip

__all__ = sorted({*_public.__all__, *_creation.__all__, *_MORE})
