"""Every method and operator of a tensor does what PyTorch's of the same name does."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from gradwalk.ops.core.operators import Operators
from tests.batches import batched
from tests.ops.oracle import OURS, THEIRS, TIGHT, assert_same, run
from tests.ops.test_pytorch_samples import RARE

# Methods without arguments, on numbers between 0.2 and 0.8.
PLAIN = [
    "abs", "neg", "square", "sqrt", "rsqrt", "sign", "floor", "exp", "expm1", "log", "log1p",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "sigmoid", "relu", "erf",
    "logical_not", "round", "sum", "mean", "prod", "amax", "amin", "all", "any", "max", "min",
    "argmax", "argmin", "var", "std", "squeeze", "flatten", "median", "reciprocal", "exp2", "log2",
    "log10", "sgn", "trunc", "ceil", "frac", "asinh", "atanh", "sinc", "deg2rad", "rad2deg",
    "erfc", "erfinv", "lgamma", "isnan", "isinf", "isfinite", "logit", "nan_to_num",
    "absolute", "negative", "positive", "fix", "arcsin", "arccos", "arctan", "arcsinh", "arctanh",
    "isposinf", "isneginf", "isreal", "signbit", "msort", "corrcoef", "cov", "aminmax", "diff",
    "diagflat",
]  # fmt: skip
# Methods with a second tensor of the same shape.
WITH_ANOTHER = [
    "add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge",
    "logical_and", "logical_or", "logical_xor", "pow", "expand_as", "atan2",
    "hypot", "true_divide", "logaddexp", "logaddexp2", "xlogy", "fmod", "remainder", "copysign",
    "float_power", "clamp_min", "clamp_max", "subtract", "multiply", "divide", "arctan2", "less",
    "less_equal", "greater", "greater_equal", "not_equal", "fmax", "fmin", "dist",
]  # fmt: skip
CALLS: dict[str, list[Any]] = {
    **{name: [lambda x, y, name=name: getattr(x, name)()] for name in PLAIN},
    **{name: [lambda x, y, name=name: getattr(x, name)(y)] for name in WITH_ANOTHER},
}
MORE: dict[str, list[Any]] = {
    "count_nonzero": [lambda x, y: x.count_nonzero(0), lambda x, y: x.count_nonzero()],
    "cummax": [lambda x, y: x.cummax(0).values],
    "cummin": [lambda x, y: x.cummin(1).values],
    "cumprod": [lambda x, y: x.cumprod(1)],
    "hardshrink": [lambda x, y: x.hardshrink(0.3)],
    "prelu": [lambda x, y: x.prelu(y.flatten()[:1].abs())],
    "logcumsumexp": [lambda x, y: x.logcumsumexp(0)],
    "kthvalue": [lambda x, y: x.kthvalue(1, 0).values],
    "nansum": [lambda x, y: x.nansum(1), lambda x, y: x.nansum()],
    "nanmean": [lambda x, y: x.nanmean(0, keepdim=True)],
    "norm": [lambda x, y: x.norm(), lambda x, y: x.norm(3, dim=1)],
    "argsort": [lambda x, y: x.argsort(1, descending=True)],
    "unique": [lambda x, y: x.detach().unique()],
    "acosh": [lambda x, y: (x + 1).acosh()],
    "digamma": [lambda x, y: x.detach().digamma()],
    "div": [lambda x, y: x.div(y, rounding_mode="floor")],
    "floor_divide": [lambda x, y: x.detach().floor_divide(y.detach())],
    "heaviside": [lambda x, y: (x.detach() - 0.5).heaviside(y.detach())],
    "lerp": [lambda x, y: x.lerp(y, 0.3), lambda x, y: x.lerp(y, y)],
    "addcmul": [lambda x, y: x.addcmul(x, y), lambda x, y: x.addcmul(x, y, value=2)],
    "addcdiv": [lambda x, y: x.addcdiv(x, y), lambda x, y: x.addcdiv(x, y, value=2)],
    "logit": [lambda x, y: x.logit(0.4), lambda x, y: x.logit(eps=0.4)],
    "polygamma": [lambda x, y: x.polygamma(2)],
    "nan_to_num": [lambda x, y: (x / 0).nan_to_num(1.0, 2.0, 3.0)],
    "add": [lambda x, y: x.add(y, alpha=2), lambda x, y: x.add(1.5)],
    "sub": [lambda x, y: x.sub(y, alpha=3), lambda x, y: x.sub(1.5, alpha=2)],
    "pow": [lambda x, y: x.pow(3), lambda x, y: x.pow(0.5)],
    "where": [lambda x, y: x.where(x > 0.5, y)],
    "round": [lambda x, y: x.round(decimals=1)],
    "clip": [lambda x, y: x.clip(0.4, 0.6), lambda x, y: x.clip(max=0.5)],
    "clamp": [lambda x, y: x.clamp(min=0.5)],
    "sum": [lambda x, y: x.sum(1), lambda x, y: x.sum(dim=0, keepdim=True)],
    "mean": [lambda x, y: x.mean((0, 1)), lambda x, y: x.mean(-1, True)],
    "prod": [lambda x, y: x.prod(1)],
    "amax": [lambda x, y: x.amax(1)],
    "amin": [lambda x, y: x.amin((0, 1), True)],
    "all": [lambda x, y: (x > 0.3).all(1)],
    "any": [lambda x, y: (x > 0.7).any(0, True)],
    "max": [lambda x, y: tuple(x.max(1)), lambda x, y: x.max(y)],
    "min": [lambda x, y: tuple(x.min(dim=0, keepdim=True)), lambda x, y: x.min(y)],
    "argmax": [lambda x, y: x.argmax(1)],
    "argmin": [lambda x, y: x.argmin(dim=0, keepdim=True)],
    "var": [lambda x, y: x.var(1, correction=0), lambda x, y: x.var(unbiased=False)],
    "std": [lambda x, y: x.std(dim=0, keepdim=True)],
    "sort": [lambda x, y: tuple(x.sort(0, True)), lambda x, y: tuple(x.sort())],
    "topk": [lambda x, y: tuple(x.topk(2)), lambda x, y: tuple(x.topk(1, 0, False))],
    "median": [lambda x, y: tuple(x.median(1))],
    "cumsum": [lambda x, y: x.cumsum(1)],
    "logsumexp": [lambda x, y: x.logsumexp(1), lambda x, y: x.logsumexp((0, 1), True)],
    "softmax": [lambda x, y: x.softmax(1)],
    "log_softmax": [lambda x, y: x.log_softmax(dim=0)],
    "reshape": [lambda x, y: x.reshape(4, 3), lambda x, y: x.reshape((2, -1))],
    "permute": [lambda x, y: x.permute(1, 0), lambda x, y: x.permute((1, 0))],
    "transpose": [lambda x, y: x.transpose(0, 1)],
    "expand": [lambda x, y: x.expand(2, -1, 4), lambda x, y: x.expand((2, 3, 4))],
    "broadcast_to": [lambda x, y: x.broadcast_to((2, 3, 4))],
    "squeeze": [lambda x, y: x[None].squeeze(0), lambda x, y: x[None].squeeze((0, 1))],
    "unsqueeze": [lambda x, y: x.unsqueeze(-1)],
    "flatten": [lambda x, y: x[None].flatten(1)],
    "flip": [lambda x, y: x.flip(0), lambda x, y: x.flip((0, 1)), lambda x, y: x.flip(0, 1)],
    "split": [lambda x, y: x.split(2), lambda x, y: x.split([1, 3], 1)],
    "chunk": [lambda x, y: x.chunk(2, 1)],
    "mT": [lambda x, y: x.mT],
    "T": [lambda x, y: x.T],
    "t": [lambda x, y: x.t()],
    "gather": [lambda x, y: x.gather(1, x.argmax(1, True))],
    "scatter_add": [lambda x, y: x.scatter_add(1, x.argmax(1, True), y[:, :1])],
    "take": [lambda x, y: x.take(x.argmax(1))],
    "index_select": [lambda x, y: x.index_select(0, x.argmax(0))],
    "take_along_dim": [lambda x, y: x.take_along_dim(x.argmax(1, True), 1)],
    "matmul": [lambda x, y: x.matmul(y.mT)],
    "arccosh": [lambda x, y: (x + 1).arccosh()],
    "ger": [lambda x, y: x[0].ger(y[1])],
    "split_with_sizes": [lambda x, y: x.split_with_sizes([1, 3], 1)],
    "addr": [lambda x, y: x.addr(y[:, 0], y[0], beta=0.5, alpha=2)],
    "cross": [lambda x, y: x.cross(y, 0), lambda x, y: x[:, :3].cross(y[:, 1:])],
    "quantile": [lambda x, y: x.quantile(0.3, 1), lambda x, y: x.quantile(0.5)],
    "histc": [lambda x, y: x.detach().histc(5, 0, 1)],
    "bincount": [lambda x, y: x.argmax(0).bincount(minlength=5)],
    "hsplit": [lambda x, y: x.hsplit(2)],
    "vsplit": [lambda x, y: x.vsplit([1, 2])],
    "dsplit": [lambda x, y: x[None].dsplit(4)],
    "isclose": [lambda x, y: x.isclose(y, atol=0.2)],
    "bitwise_and": [lambda x, y: (x > 0.5).bitwise_and(y > 0.5)],
    "bitwise_or": [lambda x, y: (x > 0.5).bitwise_or(y > 0.5)],
    "bitwise_xor": [lambda x, y: (x > 0.5).bitwise_xor(y > 0.5)],
    "bitwise_not": [lambda x, y: (x > 0.5).bitwise_not()],
    # These answer with a Python bool.
    "allclose": [lambda x, y: x * x.allclose(y), lambda x, y: x * (1 + x.allclose(x + 1e-9))],
    "equal": [
        lambda x, y: x * x.equal(y),
        lambda x, y: x * x.equal(x),
        lambda x, y: x * x.equal(x[0]),
    ],
    "is_complex": [lambda x, y: x * x.is_complex()],
    "stft": [lambda x, y: x.stft(3, 1, window=y[0, :3], center=False, return_complex=False)],
    "istft": [lambda x, y: (x + 1j * y).istft(4, 1, window=y[0], length=3)],
    # Of complex tensors: test_complex_numbers.py.
    "H": [lambda x, y: x.H],
    "mH": [lambda x, y: x.mH],
    "adjoint": [lambda x, y: x.adjoint()],
    "angle": [lambda x, y: x.angle() + y],
    "conj": [lambda x, y: x.conj() * y],
    "conj_physical": [lambda x, y: x.conj_physical() * y],
    "imag": [lambda x, y: (x * 1j).imag],
    "is_conj": [lambda x, y: x * x.is_conj()],
    "real": [lambda x, y: x.real * y],
    "resolve_conj": [lambda x, y: x.resolve_conj() * y],
    "resolve_neg": [lambda x, y: x.resolve_neg() * y],
    "is_nonzero": [lambda x, y: x * x[0, 0].is_nonzero()],
    "is_same_size": [lambda x, y: x * x.is_same_size(y), lambda x, y: x * x.is_same_size(y[0])],
    "mm": [lambda x, y: x.mm(y.mT)],
    "mv": [lambda x, y: x.mv(y[0])],
    "bmm": [lambda x, y: x[None].bmm(y.mT[None])],
    "dot": [lambda x, y: x[0].dot(y[0])],
    "outer": [lambda x, y: x[0].outer(y[1])],
    "to_sparse": [lambda x, y: x.to_sparse().to_dense() * y],
    "to_sparse_coo": [lambda x, y: x.to_sparse_coo().to_dense() * y],
    "to_sparse_csr": [lambda x, y: x.to_sparse_csr().to_dense() * y],
    "sparse_mask": [lambda x, y: x.sparse_mask((y.detach() > 0.5).to_sparse()).to_dense() * y],
}
OPERATORS: dict[str, list[Any]] = {
    "__add__": [lambda x, y: x + y, lambda x, y: x + 2, lambda x, y: x + 0.5],
    "__radd__": [lambda x, y: 2 + x],
    "__sub__": [lambda x, y: x - y, lambda x, y: x - 2],
    "__rsub__": [lambda x, y: 2.5 - x],
    "__mul__": [lambda x, y: x * y, lambda x, y: x * x],
    "__rmul__": [lambda x, y: 3 * x],
    "__truediv__": [lambda x, y: x / y, lambda x, y: x / 4],
    "__rtruediv__": [lambda x, y: 1 / x],
    "__floordiv__": [lambda x, y: x.detach() // y.detach(), lambda x, y: x.detach() // 0.3],
    "__rfloordiv__": [lambda x, y: 2 // x.detach()],
    "__mod__": [lambda x, y: x % y, lambda x, y: x % 0.3],
    "__rmod__": [lambda x, y: 2 % x.detach()],
    "__pow__": [lambda x, y: x**y, lambda x, y: x**2, lambda x, y: x**-0.5],
    "__rpow__": [lambda x, y: 2**x],
    "__neg__": [lambda x, y: -x],
    "__pos__": [lambda x, y: +x],
    "__abs__": [lambda x, y: abs(x - 0.5)],
    "__matmul__": [lambda x, y: x @ y.mT],
    "__lt__": [lambda x, y: x < y, lambda x, y: x < 0.5],
    "__le__": [lambda x, y: x <= y],
    "__gt__": [lambda x, y: x > y, lambda x, y: y > 0.5],
    "__ge__": [lambda x, y: x >= 0.5],
    "__eq__": [lambda x, y: x == y, lambda x, y: x == x],
    "__ne__": [lambda x, y: x != y],
    "__and__": [lambda x, y: (x > 0.5) & (y > 0.5), lambda x, y: (x > 0.5) & True],
    "__or__": [lambda x, y: (x > 0.5) | (y > 0.5)],
    "__xor__": [lambda x, y: (x > 0.5) ^ (y > 0.5)],
    "__rand__": [lambda x, y: True & (x > 0.5)],
    "__ror__": [lambda x, y: False | (x > 0.5)],
    "__rxor__": [lambda x, y: True ^ (x > 0.5)],
    "__lshift__": [lambda x, y: (x * 50).long() << 2],
    "__rshift__": [lambda x, y: (x * -50).long() >> 2],
    "__rlshift__": [lambda x, y: 3 << (y * 9).long()],
    "__rrshift__": [lambda x, y: 99 >> (y * 9).long()],
    "__invert__": [lambda x, y: ~(x > 0.5)],
    "__getitem__": [lambda x, y: x[1:, ::2]],
    "__iter__": [lambda x, y: tuple(row for row in x)],
    "__reversed__": [lambda x, y: reversed(x)],
    "__len__": [lambda x, y: x * len(x)],
}
NOT_COMPARED = {
    "__rmatmul__": "PyTorch has no array @ tensor",
    "__hash__": "no tensor comes out",
}


def calls() -> list[tuple[str, Any]]:
    merged = {name: CALLS.get(name, []) + MORE.get(name, []) for name in {**CALLS, **MORE}}
    return [
        (f"{name}-{number}", call)
        for name, alternatives in {**merged, **OPERATORS}.items()
        for number, call in enumerate(alternatives)
    ]


@batched("name, call", calls())
def test_as_pytorch(name: str, call: Any) -> None:
    source = np.random.default_rng(7)
    arrays = [source.uniform(0.2, 0.8, (3, 4)) for _ in range(2)]
    with_module = lambda m, x, y: call(x, y)
    assert_same(run(OURS, with_module, arrays), run(THEIRS, with_module, arrays), TIGHT)


def members(about_shape: bool) -> dict[str, Any]:
    """The methods of Operators and of its mixins; test_networks_b has those about shape."""
    found: dict[str, Any] = {}
    for part in Operators.__mro__[:-1]:
        found |= vars(part)
    rooms = ("gradwalk.ops.shape.", "gradwalk.ops.index.", "gradwalk.ops.linear.")
    return {
        n: m
        for n, m in found.items()
        if callable(m) or isinstance(m, property)
        if getattr(m, "__module__", "").startswith(rooms) is about_shape
    }


def test_no_method_is_left_out() -> None:
    own = set(members(about_shape=False))
    public = {name for name in own if not name.startswith("_")}
    special = {name for name in own if name.startswith("__")}
    special -= set(dir(object)) - {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
    assert public <= {*CALLS, *MORE, *RARE.split()}
    assert special <= {*OPERATORS, *NOT_COMPARED}


def test_a_numpy_matrix_on_the_left() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    x = OURS.tensor(np.ones((3, 2)))
    assert (matrix @ x).tolist() == (matrix @ np.ones((3, 2))).tolist()


def test_every_method_has_a_docstring() -> None:
    for name, member in {**members(True), **members(False)}.items():
        if not name.startswith("_"):
            assert inspect.getdoc(member), name
