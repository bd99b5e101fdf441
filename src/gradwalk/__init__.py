"""gradwalk: reverse-mode automatic differentiation in which nothing is hidden."""

from gradwalk import autograd as autograd
from gradwalk import nn as nn
from gradwalk import optim as optim
from gradwalk.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    is_tensor,
    linspace,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    tensor,
    zeros,
    zeros_like,
)
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
from gradwalk.ops.activation import (
    erf,
    leaky_relu,
    relu,
    sigmoid,
    softplus,
)
from gradwalk.ops.arithmetic import (
    abs,
    add,
    div,
    exp,
    expm1,
    floor,
    log,
    log1p,
    mul,
    neg,
    round,
    rsqrt,
    sign,
    sqrt,
    square,
    sub,
)
from gradwalk.ops.choice import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    clip,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    not_equal,
    where,
)
from gradwalk.ops.choice import (
    clip as clamp,
)
from gradwalk.ops.choice import (
    equal as eq,
)
from gradwalk.ops.choice import (
    greater as gt,
)
from gradwalk.ops.choice import (
    greater_equal as ge,
)
from gradwalk.ops.choice import (
    less as lt,
)
from gradwalk.ops.choice import (
    less_equal as le,
)
from gradwalk.ops.choice import (
    not_equal as ne,
)
from gradwalk.ops.dtypes import (
    bool_ as bool,
)
from gradwalk.ops.dtypes import (
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
)
from gradwalk.ops.dtypes import (
    float32 as float,
)
from gradwalk.ops.dtypes import (
    float64 as double,
)
from gradwalk.ops.dtypes import (
    int32 as int,
)
from gradwalk.ops.dtypes import (
    int64 as long,
)
from gradwalk.ops.index import (
    gather,
    index_select,
    scatter_add,
    take,
    take_along_dim,
)
from gradwalk.ops.linalg import (
    dot,
    einsum,
    linear,
    matmul,
    outer,
)
from gradwalk.ops.loss import (
    cross_entropy,
    log_softmax,
    softmax,
)
from gradwalk.ops.op import (
    Op,
    OpError,
    define,
    elementwise,
)
from gradwalk.ops.operators import raised as pow
from gradwalk.ops.reduction import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    cumsum,
    logsumexp,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from gradwalk.ops.shape import (
    broadcast_to,
    cat,
    chunk,
    clone,
    expand,
    flatten,
    pad,
    split,
    squeeze,
    stack,
    transpose,
    unsqueeze,
)
from gradwalk.ops.shape import (
    cat as concat,
)
from gradwalk.ops.shape import (
    cat as concatenate,
)
from gradwalk.ops.shape import (
    flip_over as flip,
)
from gradwalk.ops.shape import (
    permute_to as permute,
)
from gradwalk.ops.shape import (
    reshape_to as reshape,
)
from gradwalk.ops.trigonometry import (
    acos,
    asin,
    atan,
    cos,
    cosh,
    sin,
    sinh,
    tan,
    tanh,
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

__version__ = "0.1.0"

__all__ = [
    "AutogradError",
    "Generator",
    "Op",
    "OpError",
    "Tensor",
    "Value",
    "abs",
    "acos",
    "add",
    "all",
    "amax",
    "amin",
    "any",
    "arange",
    "argmax",
    "argmin",
    "as_tensor",
    "asin",
    "atan",
    "autograd",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "bool",
    "broadcast_to",
    "cat",
    "checkpoint",
    "chunk",
    "clamp",
    "clip",
    "clone",
    "concat",
    "concatenate",
    "cos",
    "cosh",
    "cross_entropy",
    "cumsum",
    "define",
    "derivative",
    "div",
    "dot",
    "double",
    "einsum",
    "elementwise",
    "empty",
    "empty_like",
    "enable_grad",
    "eq",
    "equal",
    "erf",
    "exp",
    "expand",
    "expm1",
    "eye",
    "flatten",
    "flip",
    "float",
    "float32",
    "float64",
    "floor",
    "formula",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "gather",
    "ge",
    "get_default_dtype",
    "get_rng_state",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "greater",
    "greater_equal",
    "gt",
    "hessian",
    "hvp",
    "index_select",
    "inference_mode",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "is_grad_enabled",
    "is_tensor",
    "jacfwd",
    "jacrev",
    "jvp",
    "le",
    "leaky_relu",
    "less",
    "less_equal",
    "linear",
    "linspace",
    "log",
    "log1p",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "long",
    "lt",
    "manual_seed",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mul",
    "ne",
    "neg",
    "nn",
    "no_grad",
    "not_equal",
    "ones",
    "ones_like",
    "optim",
    "outer",
    "pad",
    "permute",
    "pow",
    "prod",
    "promote_types",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "relu",
    "reshape",
    "round",
    "rsqrt",
    "saved_bytes",
    "scatter_add",
    "set_default_dtype",
    "set_grad_enabled",
    "set_rng_state",
    "set_source_lines",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softmax",
    "softplus",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "sub",
    "sum",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "tensor",
    "transpose",
    "uint8",
    "unsqueeze",
    "value_and_grad",
    "var",
    "vjp",
    "where",
    "zeros",
    "zeros_like",
]
