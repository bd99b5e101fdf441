"""Every op against PyTorch: value and gradient, in both float dtypes and any memory layout."""

from __future__ import annotations

import functools
import itertools
import math
import types
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.graph.order import inputs_first
from gradwalk.ops import BESIDE, TABLE
from gradwalk.tensors.tensor import Tensor
from tests.batches import batched
from tests.ops import test_made_of_ops
from tests.ops.oracle import OURS, SINGLE, THEIRS, TIGHT, Result, assert_same, run
from tests.ops.samples.table import (
    Sample,
    all_samples,
    attributes_of,
    elementwise_pair,
    samples_of_every_op,
)
from tests.ops.test_pytorch_samples import RARE

SAMPLES = all_samples()
every_sample = samples_of_every_op()


def test_every_op_of_the_table_has_samples() -> None:
    assert set(TABLE) == {sample.op for sample in SAMPLES}


class Spy:
    """A module that notes which of its names were used."""

    def __init__(self, module: Any, used: set[str]) -> None:
        self._module, self._used = module, used

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        self._used.add(name)
        return Spy(found, self._used) if isinstance(found, types.ModuleType) else found


def test_every_public_function_of_the_ops_has_samples() -> None:
    used: set[str] = set()
    for sample in SAMPLES:
        sample.ours(Spy(gw, used), *map(gw.from_numpy, sample.arrays()))
    functions = {
        name
        for name in gw.__all__
        if isinstance(found := getattr(gw, name), types.FunctionType)
        and found.__module__.startswith("gradwalk.ops.")
        and found.__module__ not in ("gradwalk.ops.core.dtypes", "gradwalk.ops.core.op")
    }
    made_of_others = {name.split()[0] for name in test_made_of_ops.CALLS}
    # Those beside the table have tests of their own, or PyTorch's samples.
    modules = {module.__name__ for module in BESIDE}
    beside = {name for name in functions if getattr(gw, name).__module__ in modules}
    beside |= {"polar", *RARE.split()}
    assert functions - made_of_others - beside <= used


@every_sample
def test_the_sample_is_about_its_op(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    met = set()
    apply = Tensor._apply

    def noting(op: Any, args: Any, attrs: Any) -> Any:
        met.add(op.name)
        return apply(op, args, attrs)

    monkeypatch.setattr(Tensor, "_apply", staticmethod(noting))
    inputs = [gw.tensor(a, requires_grad=a.dtype.kind == "f") for a in sample.arrays()]
    found = sample.ours(gw, *inputs)
    outputs = found if isinstance(found, tuple) else (found,)
    for node in inputs_first([o.grad_fn for o in outputs if o.grad_fn is not None]):
        met.add(node.op.name if node.inputs else "")
    if sample.op == "einsum" and len(inputs) == 1:  # a view, if nothing is summed
        met |= {"einsum"} if met & {"permute", "diagonal"} else set()
    assert sample.op in met


@samples_of_every_op(quick=4)
def test_value_and_gradient(sample: Sample) -> None:
    arrays = sample.arrays()
    ours = run(OURS, sample.ours, arrays, seed=sample.seed)
    assert_same(ours, run(THEIRS, sample.theirs, arrays, seed=sample.seed), TIGHT)


@every_sample
def test_float32_stays_float32(sample: Sample) -> None:
    arrays = sample.arrays(np.float32)
    ours = run(OURS, sample.ours, arrays, seed=sample.seed)
    assert_same(ours, run(THEIRS, sample.theirs, arrays, seed=sample.seed), SINGLE)


# -- memory layouts -----------------------------------------------------------------------------


def _apart(array: np.ndarray) -> np.ndarray:
    """Every second element of a larger array."""
    return np.repeat(array, 2, axis=-1)[..., ::2]


def _read_only(array: np.ndarray) -> np.ndarray:
    found = array.copy()
    found.flags.writeable = False
    return found


LAYOUTS = {
    "transposed": lambda array: np.ascontiguousarray(array.T).T,
    "reversed": lambda array: np.flip(np.flip(array).copy()),
    "apart": _apart,
    "read_only": _read_only,
}


@functools.lru_cache(maxsize=1)
def _laid_out_plainly(sample: Sample) -> Result:
    return run(OURS, sample.ours, sample.arrays(), seed=sample.seed)


@pytest.mark.slow  # four layouts of every sample
@batched("sample, name", itertools.product(SAMPLES, LAYOUTS), key=lambda case: case[0].op)
def test_memory_layout_does_not_matter(sample: Sample, name: str) -> None:
    layout = LAYOUTS[name]
    arrays = sample.arrays()
    plain = _laid_out_plainly(sample)
    laid_out = [layout(a) if a.ndim else a.copy() for a in arrays]
    before = [a.copy() for a in laid_out]
    assert_same(run(OURS, sample.ours, laid_out, seed=sample.seed, layout=layout), plain, TIGHT)
    for one, other in zip(laid_out, before):
        np.testing.assert_array_equal(one, other)  # nobody wrote into the inputs


# -- special numbers ----------------------------------------------------------------------------

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 50.0, -800.0, 1e300]
SMOOTH = [
    (op, attrs)
    for op in TABLE.values()
    if op.elementwise and not op.name.startswith("bitwise_")
    for attrs in attributes_of(op)
]


# Where we differ from PyTorch on purpose: op -> (the numbers left out, why).
DELIBERATE = {
    "sign": ([math.nan], "NumPy's: a NaN stays one; PyTorch says 0, which hides it"),
    "abs": ([math.nan], "the same, in the gradient"),
    "copysign": ([math.inf, -math.inf], "the slope is ±1 there too; PyTorch has inf / inf"),
    "digamma": ([math.inf], "its slope there is 0; PyTorch's zeta, the reference, says NaN"),
    "polygamma 0": ([math.inf], "the same"),
    "polygamma 1": ([math.inf], "the same"),
    "polygamma 2": ([math.inf], "the same"),
    # With AVX-512 PyTorch's slopes are ours, with AVX2 others.
    "logit": ([-0.0], "it depends on the processor what PyTorch's slope is"),
    **{
        name: ([math.nan], "the same")
        for name in ("logit 0.3", "elu 1.0", "elu 0.7 1.5", "elu 2.0 1.0 0.5", "hardswish")
    },
}


@pytest.mark.parametrize(("op", "attrs"), SMOOTH, ids=lambda part: str(getattr(part, "name", part)))
def test_special_numbers(op: Any, attrs: dict[str, Any]) -> None:
    left_out, _ = DELIBERATE.get(" ".join([op.name, *map(str, attrs.values())]), ([], ""))
    numbers = [n for n in SPECIAL if repr(n) not in map(repr, left_out)]
    if op.name == "where":
        grid = list(itertools.product([True, False], numbers, numbers))
        arrays = [np.array([row[0] for row in grid]), *np.array([row[1:] for row in grid]).T]
    else:
        arrays = list(np.array(list(itertools.product(numbers, repeat=len(op.inputs)))).T.copy())
    ours, theirs = elementwise_pair(op, attrs)
    assert_same(run(OURS, ours, arrays), run(THEIRS, theirs, arrays), TIGHT)


NAN, INF = math.nan, math.inf
NOT_FINITE = np.array([[1.0, NAN, 3.0], [INF, 2.0, -INF], [-INF] * 3])
REDUCTIONS = {
    "sum": lambda m, x: m.sum(x, 1),
    "mean": lambda m, x: m.mean(x, 1),
    "max": lambda m, x: tuple(m.max(x, 1)),
    "min": lambda m, x: tuple(m.min(x, 1)),
    "max of all": lambda m, x: m.max(x),
    "min of all": lambda m, x: m.min(x),
    "argmax": lambda m, x: m.argmax(x, 1),
    "argmin": lambda m, x: m.argmin(x, 1),
    "var": lambda m, x: m.var(x, 1),
    "cumsum": lambda m, x: m.cumsum(x, 1),
    "softmax": lambda m, x: m.softmax(x, 1),
    "log_softmax": lambda m, x: m.log_softmax(x, 1),
    "cross_entropy": lambda m, x: m.nn.functional.cross_entropy(x, m.tensor([0, 1, 2])),
    "matmul": lambda m, x: x @ x,
    "einsum": lambda m, x: m.einsum("ij,kj->ik", x, x),
    "diagonal": lambda m, x: m.einsum("ii->i", x),
    "amax": lambda m, x: m.amax(x, 1),
    "amin": lambda m, x: m.amin(x, 1),
    "prod": lambda m, x: m.prod(x, 1),
    "logsumexp": lambda m, x: m.logsumexp(x, 1),
}
# Where we differ on purpose, the gradient of the sum of the result.
OUR_GRADIENTS = {
    # A NaN is the best and takes the gradient, as in PyTorch's max(); its amax gives NaN to all.
    "amax": [[0, 1, 0], [1, 0, 0], [1 / 3] * 3],
    "amin": [[0, 1, 0], [0, 0, 1], [1 / 3] * 3],
    # The product of the others, also beside a NaN or inf; PyTorch divides the product by x.
    "prod": [[NAN, 3, NAN], [-INF, -INF, INF], [INF] * 3],
    # A row of -inf contributes nothing, so nothing comes back; PyTorch's is exp(-inf − -inf).
    "logsumexp": [[NAN] * 3, [NAN, 0, 0], [0] * 3],
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_numbers_that_are_not_finite_in_reductions(name: str) -> None:
    ours = run(OURS, REDUCTIONS[name], [NOT_FINITE])
    theirs = run(THEIRS, REDUCTIONS[name], [NOT_FINITE])
    if name in OUR_GRADIENTS:
        x = gw.tensor(NOT_FINITE, requires_grad=True)
        REDUCTIONS[name](gw, x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), OUR_GRADIENTS[name])
        ours.gradients, theirs.gradients = [], []
    assert_same(ours, theirs, TIGHT)


def test_no_result_is_a_numpy_scalar() -> None:
    x = gw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for result in (x.sum(), x[0, 0], x.max(), x.prod(), x.argmax(), x.sum() * 2, -x.sum()):
        assert result._array.__class__ is np.ndarray
