"""Kernels for single eager calls: NumPy's numbers, for every op that has one and its rules."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.ops.network.recurrent import PARTS
from gradwalk.optim import adam, sgd
from gradwalk.tensors.single_calls import LEAST, MOST, OPS, SingleCall
from tests.batches import batched

Case = tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]]

SLIDING = dict(stride=(2, 1), padding=((1, 1), (0, 2)), dilation=(1, 2))
POOLING = dict(kernel=(3, 2), stride=(2, 2), padding=((1, 1), (0, 0)))
# Operands that are not just any numbers.
SUITED: dict[str, dict[int, Any]] = {
    "binary_cross_entropy": {0: lambda x: 0.5 + 0.4 * np.tanh(x), 1: lambda x: np.abs(np.tanh(x))},
    "cross_entropy": {1: lambda x: (4 * np.abs(x)).astype(np.int64) % 9},
    "log": {0: lambda x: np.abs(x) + np.exp(-3).astype(x.dtype)},
    "sqrt": {0: lambda x: np.abs(x) + np.exp(-3).astype(x.dtype)},
    "sum_rows": {1: lambda x: (4 * np.abs(x)).astype(np.int64) % 9},
    "where": {0: lambda x: x > 0},
}
APART = dict(kernel=(2, 2), stride=(2, 2), padding=((0, 0), (0, 0)))
BATCH, LAYER = dict(axes=(0, 2), eps=1e-5), dict(axes=(1,), eps=1e-5)


def _convolutions(groups: int, channels: int, outputs: int) -> Iterator[Case]:
    x, y = (3, channels, 9, 10), (3, outputs, 5, 8)
    weight, attrs = (outputs, channels // groups, 3, 3), dict(SLIDING, groups=groups)
    yield "conv", (x, weight), attrs
    yield "conv_bias", (x, weight, (outputs,)), attrs
    yield "conv_input", (y, weight), dict(attrs, shape=(9, 10))
    yield "conv_weight", (x, y), dict(attrs, kernel=(3, 3))


CASES: list[Case] = [
    ("attention", ((2, 3, 9, 4), (2, 3, 7, 4), (2, 3, 7, 4)), dict(scale=0.5, causal=False)),
    ("attention", ((2, 9, 4), (2, 9, 4), (2, 9, 5)), dict(scale=0.3, causal=True)),
    *_convolutions(1, 3, 20),
    *_convolutions(2, 4, 6),
    *_convolutions(6, 6, 6),  # depthwise
    *_convolutions(3, 3, 9),
    *((name, ((70, 9),), {}) for name in ("abs", "hardsigmoid", "hardswish", "logsigmoid", "mish")),
    ("clip", ((70, 9),), dict(min=-0.5, max=0.7)),
    ("maximum", ((70, 9), (9,)), {}),
    ("minimum", ((70, 9), (9,)), {}),
    ("power", ((70, 9),), dict(exponent=2)),
    ("power", ((70, 9),), dict(exponent=3)),
    ("square", ((70, 9),), {}),
    ("sum_rows", ((6, 10, 5), (6, 10)), dict(count=9, skip=None)),
    ("sum_rows", ((6, 10, 5), (6, 10)), dict(count=9, skip=3)),
    ("add", ((70, 9), (70, 9)), {}),
    ("add", ((70, 9), (9,)), {}),
    ("binary_cross_entropy", ((70, 9), (70, 9)), {}),
    ("binary_cross_entropy_logits", ((70, 9), (70, 9)), {}),
    ("concatenate", ((7, 9, 4), (7, 3, 4)), dict(axis=1)),
    ("cross_entropy", ((70, 9), (70,)), dict(ignore_index=-100)),
    ("cross_entropy", ((7, 300), (7,)), dict(ignore_index=2)),
    ("div", ((70, 9), (70, 9)), {}),
    ("elu", ((70, 9),), dict(alpha=1.0)),
    ("exp", ((70, 9),), {}),
    ("gelu", ((70, 9),), {}),
    ("gelu_tanh", ((70, 9),), {}),
    ("hardtanh", ((70, 9),), dict(min_val=0.0, max_val=0.7)),
    ("leaky_relu", ((70, 9),), dict(negative_slope=0.2)),
    ("linear", ((6, 7, 9), (8, 9), (8,)), {}),
    ("log", ((70, 9),), {}),
    ("log_softmax", ((7, 30, 5),), dict(axis=1)),
    ("matmul", ((30, 9), (9, 20)), {}),
    ("matmul", ((3, 30, 9), (9, 20)), {}),
    ("matmul", ((3, 1, 30, 9), (2, 9, 20)), {}),
    ("max_pool", ((2, 3, 9, 8),), dict(POOLING, out=(5, 4), dilation=(1, 1))),
    ("max_pool", ((2, 3, 8, 8),), dict(APART, out=(4, 4), dilation=(1, 1))),
    ("mean", ((20, 5, 8),), dict(axis=(0, 2), keepdim=False)),
    ("mul", ((7, 30), (7, 30)), {}),
    ("mul", ((7, 30, 4), (7, 1, 1)), {}),
    ("pool_spread", ((2, 3, 5, 4),), dict(POOLING, shape=(9, 8))),
    ("pool_sum", ((2, 3, 9, 8),), dict(POOLING, out=(5, 4))),
    ("relu", ((70, 9),), {}),
    ("sigmoid", ((70, 9),), {}),
    ("silu", ((70, 9),), {}),
    ("softmax", ((40, 33),), dict(axis=1)),
    ("softplus", ((70, 9),), dict(beta=1.0, threshold=20.0)),
    ("sub", ((70, 9), (70, 9)), {}),
    ("sqrt", ((70, 9),), {}),
    ("tanh", ((70, 9),), {}),
    ("where", ((70, 9), (70, 9), (70, 9)), {}),
    ("where", ((70, 9), (70, 1), (9,)), {}),
    ("sum", ((4, 5, 2, 7, 2),), dict(axis=(2, 4), keepdim=True)),
    ("sum", ((40, 33),), dict(axis=(0,), keepdim=False)),
    ("standardize", ((40, 33),), dict(LAYER, center=True)),
    ("standardize", ((40, 33),), dict(LAYER, center=False)),
    ("standardize_affine", ((6, 5, 8), (1, 5, 1), (1, 5, 1)), dict(BATCH, center=True)),
    ("standardize_affine", ((40, 33), (1, 33), (1, 33)), dict(LAYER, center=True)),
]


@pytest.fixture(autouse=True)
def default_mode() -> Iterator[None]:
    before = gw.get_eager_kernels()
    yield
    gw.set_eager_kernels(before)


def _drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _value_and_gradients(mode: str, op: Any, arrays: list[Any], attrs: dict[str, Any]) -> list[Any]:
    gw.set_eager_kernels(mode)
    operands = [gw.tensor(array, requires_grad=array.dtype.kind == "f") for array in arrays]
    out = op(*operands, **attrs)
    g = _drawn(tuple(out.shape), str(out.dtype), 9)
    learning = [operand for operand in operands if operand.requires_grad]
    gradients = gw.autograd.grad(out, learning, gw.tensor(g))
    return [out.detach().numpy(), *(each.numpy() for each in gradients)]


@batched("case", CASES, key=lambda case: case[0])
def test_kernels_give_numpys_numbers(case: Case) -> None:
    name, shapes, attrs = case
    op = TABLE[name]
    for dtype, tolerance in (("f4", 3e-5), ("f8", 1e-12)):
        arrays = [_drawn(shape, dtype, i) for i, shape in enumerate(shapes)]
        for i, suited in SUITED.get(name, {}).items():
            arrays[i] = suited(arrays[i])
        expected = _value_and_gradients("never", op, arrays, attrs)
        op.native.kernels.clear()
        found = _value_and_gradients("always", op, arrays, attrs)
        (kernel,) = op.native.kernels.values()
        assert kernel is not None, f"{name} has no kernel for {shapes}"
        for got, want in zip(found, expected, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, tolerance, tolerance * np.abs(want).max())


def test_every_op_with_kernels_has_a_case() -> None:
    assert {name for name, _, _ in CASES} == set(OPS)
    assert {name for name, op in TABLE.items() if op.native is not None} == set(OPS)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "hardtanh", "silu", "softmax"])
def test_special_values(name: str) -> None:
    x = _drawn((30, 5), "f4", 0)
    x[::3, 1], x[1::4, 2], x[2::5, 3] = np.nan, np.inf, -np.inf
    attrs = next(attrs for each, _, attrs in CASES if each == name)
    expected = _value_and_gradients("never", TABLE[name], [x], attrs)
    found = _value_and_gradients("always", TABLE[name], [x], attrs)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)


# -- which arrays --------------------------------------------------------------------------------


def _views(x: Any) -> Iterator[Any]:
    """The same numbers in other memory."""
    yield np.asfortranarray(x)
    yield np.ascontiguousarray(x[::-1])[::-1]
    yield np.repeat(x, 2, axis=-1)[..., ::2]
    read_only = x.copy()
    read_only.flags.writeable = False
    yield read_only
    unaligned = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    unaligned[...] = x
    yield unaligned


def test_any_memory_gives_the_same_numbers() -> None:
    x, weight = _drawn((2, 3, 8, 9), "f4", 0), _drawn((4, 3, 3, 3), "f4", 1)
    attrs = dict(stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1)
    gw.set_eager_kernels("always")
    expected = TABLE["conv"](x, weight, **attrs)
    for view in _views(x):
        np.testing.assert_allclose(TABLE["conv"](view, weight, **attrs), expected, 1e-5, 1e-5)
    spread = np.broadcast_to(x[:1], x.shape)
    np.testing.assert_allclose(
        TABLE["softmax"](spread, axis=1), TABLE["softmax"](spread.copy(), axis=1), 1e-6
    )


def test_products_read_transposed_factors_where_they_lie() -> None:
    gw.set_eager_kernels("always")
    product = TABLE["matmul"]
    product.native.kernels.clear()
    x, y = _drawn((3, 8, 9), "f4", 0), _drawn((3, 9, 7), "f4", 1)
    memories = [(a, np.ascontiguousarray(a.mT).mT) for a in (x, y)]
    for left in memories[0]:
        for right in memories[1]:
            np.testing.assert_allclose(product(left, right), np.matmul(x, y), 1e-5, 1e-5)
    assert len(product.native.kernels) == 4 and None not in product.native.kernels.values()
    for view in _views(x):
        np.testing.assert_allclose(product(view, y), np.matmul(x, y), 1e-5, 1e-5)


def test_products_read_heads_side_by_side_where_they_lie() -> None:
    gw.set_eager_kernels("always")
    product = TABLE["matmul"]
    product.native.kernels.clear()
    heads = _drawn((2, 5, 3, 4, 6), "f4", 0).transpose(2, 0, 3, 1, 4)  # (3, batch, heads, ...)
    q, k, v = heads
    weights = np.ascontiguousarray(q @ k.mT)
    for left, right in ((q, k.mT), (weights, v), (weights.mT, v), (v, k[:, :1].mT)):
        found = product(left, right)
        assert found.flags.c_contiguous
        np.testing.assert_allclose(found, np.matmul(left, right), 1e-4, 1e-5)
    assert len(product.native.kernels) == 4 and None not in product.native.kernels.values()


def test_another_number_needs_no_new_kernel() -> None:
    gw.set_eager_kernels("always")
    x = gw.tensor(_drawn((70, 9), "f4", 0), requires_grad=True)
    TABLE["mul"].native.kernels.clear()
    for number in (0.5, 3, -2.0, 0.0, -0.0):
        for product in (x * number, number * x):
            np.testing.assert_array_equal(product.detach().numpy(), x.detach().numpy() * number)
            (gradient,) = gw.autograd.grad(product.sum(), x)
            np.testing.assert_array_equal(gradient.numpy(), np.full((70, 9), number, "f4"))
    assert len(TABLE["mul"].native.kernels) <= 2


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda x, y: gw.nn.functional.relu(x, inplace=True),
    "leaky_relu": lambda x, y: gw.nn.functional.leaky_relu(x, 0.2, inplace=True),
    "silu": lambda x, y: gw.nn.functional.silu(x, inplace=True),
    "add": lambda x, y: x.add_(y[0]),
    "mul": lambda x, y: x.mul_(y),
    "div": lambda x, y: x.div_(2.5),
    "sub": lambda x, y: x[1:].sub_(x[:-1]),  # NumPy's: a kernel would read what it wrote
}


@batched("name", IN_PLACE, key=lambda name: name)
def test_changes_in_place_give_numpys_numbers(name: str) -> None:
    found = {}
    for mode in ("never", "always"):
        gw.set_eager_kernels(mode)
        TABLE[name].native.in_place.kernels.clear()
        for grad in (True, False):
            x, y = (gw.tensor(_drawn((70, 9), "f4", i), requires_grad=grad) for i in range(2))
            changed = x * 1
            address = changed.data_ptr()
            IN_PLACE[name](changed, y)
            assert changed.data_ptr() == address
            arrays = [changed.detach().numpy()]
            if grad:
                arrays += [g.numpy() for g in gw.autograd.grad((changed * y).sum(), (x, y))]
            found[mode, grad] = arrays
    kernels = TABLE[name].native.in_place.kernels.values()
    assert None not in kernels and bool(kernels) == (name != "sub")
    for grad in (True, False):
        for got, want in zip(found["always", grad], found["never", grad], strict=True):
            np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def test_a_change_in_place_keeps_its_errors() -> None:
    gw.set_eager_kernels("always")
    x, row = gw.ones(70, 9), gw.ones(9)
    for wrong in (lambda: row.add_(x), lambda: row.expand(70, 9).relu_()):
        with pytest.raises(RuntimeError, match="in place"):
            wrong()
    assert row.tolist() == [1.0] * 9
    x.mul_(gw.ones(9, dtype=gw.float64) / 3)  # computed in float64, rounded once
    assert x.dtype == gw.float32 and x[0, 0].item() == np.float32(1 / 3)


def test_one_large_factor_is_enough() -> None:
    gw.set_eager_kernels("auto")
    product = TABLE["matmul"]
    product.native.kernels.clear()
    x, y = _drawn((3, 200), "f4", 0), _drawn((200, LEAST // 200 + 1), "f4", 1)
    for _ in range(2):
        np.testing.assert_allclose(product(x, y), np.matmul(x, y), 1e-4, 1e-4)
        product(x, y[:, :3].copy())
    assert len(product.native.kernels) == 1


def test_recurrent_layers_multiply_by_kernels() -> None:
    x = _drawn((5, 3, 4), "f8", 0)
    gradients: dict[str, list[Any]] = {}
    for layer in (gw.nn.LSTM, gw.nn.GRU, gw.nn.RNN):
        gw.manual_seed(0)
        model = layer(4, 6, num_layers=2).double()
        for mode in ("never", "always"):
            gw.set_eager_kernels(mode)
            TABLE["matmul"].native.kernels.clear()
            (model(gw.tensor(x))[0] ** 2).sum().backward()
            gradients[mode] = [p.grad.numpy().copy() for p in model.parameters()]
            model.zero_grad()
        assert TABLE["matmul"].native.kernels
        if layer is not gw.nn.RNN:
            assert any(None not in p.native.kernels.values() for p in PARTS if p.native.kernels)
        for found, wanted in zip(gradients["always"], gradients["never"], strict=True):
            np.testing.assert_allclose(found, wanted, 1e-10, 1e-12)


# -- optimizers ----------------------------------------------------------------------------------

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {}),
    ("Adam", dict(weight_decay=0.1, maximize=True)),
    ("Adam", dict(amsgrad=True)),
    ("AdamW", dict(betas=(0.8, 0.9))),
    ("SGD", {}),
    ("SGD", dict(momentum=0.9, weight_decay=0.1)),
    ("SGD", dict(momentum=0.9, nesterov=True, maximize=True)),
    ("SGD", dict(momentum=0.9, dampening=0.3)),
]


def _trained(mode: str, name: str, options: dict[str, Any]) -> list[Any]:
    """Parameters and state after some steps at changing rates."""
    gw.set_eager_kernels(mode)
    transposed = np.asfortranarray(_drawn((9, 8), "f4", 0))
    arrays = [_drawn((30, 7), "f4", 0), transposed, _drawn((5,), "f8", 2), _drawn((2, 3), "f4", 3)]
    parameters = [gw.from_numpy(array).requires_grad_() for array in arrays]
    optimizer = getattr(gw.optim, name)(parameters, lr=0.1, **options)
    for step in range(6):
        for i, parameter in enumerate(parameters):
            if i < 3 or step > 1:  # one joins later
                shape, dtype = tuple(parameter.shape), str(parameter.dtype)
                parameter.grad = gw.tensor(_drawn(shape, dtype, 7 * step + i))
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + step)
        if "momentum" in options:
            optimizer.param_groups[0]["momentum"] = 0.9 - 0.01 * step
        optimizer.step()
    states = [
        s for p in parameters for s in optimizer.state[p].values() if isinstance(s, gw.Tensor)
    ]
    return [t.detach().numpy() for t in (*parameters, *states)]


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_optimizers_take_the_same_steps(name: str, options: dict[str, Any]) -> None:
    call = {"Adam": adam._moves, "AdamW": adam._moves, "SGD": sgd._moves}[name]
    expected = _trained("never", name, options)
    call.kernels.clear()
    found = _trained("always", name, options)
    assert all(kernel is not None for kernel in call.kernels.values())
    assert 0 < len(call.kernels) < 5  # new rates need no kernel
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def test_a_read_only_parameter_is_refused_as_without_kernels() -> None:
    for mode in ("never", "always"):
        gw.set_eager_kernels(mode)
        parameter = gw.ones(8, 9, requires_grad=True)
        parameter.grad = gw.ones(8, 9)
        optimizer = gw.optim.SGD([parameter], lr=0.1)
        optimizer.step()
        parameter._array.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            optimizer.step()


def test_a_result_is_memory_of_its_own() -> None:
    gw.set_eager_kernels("always")
    x = gw.ones(8, 9)
    first = gw.relu(x)
    x.mul_(3.0)
    second = gw.relu(x)
    assert float(first.sum()) == 72 and float(second.sum()) == 216
    first.zero_()
    assert float(second.sum()) == 216 and float(x.sum()) == 216


def test_errors_are_the_same() -> None:
    gw.set_eager_kernels("always")
    with pytest.raises(gw.AutogradError, match="modified in place"):
        x = gw.ones(8, 9, requires_grad=True)
        y = gw.softmax(x, 1)
        y.mul_(2.0)
        y.sum().backward()
    with pytest.raises(ValueError, match="does not fit"):
        gw.nn.functional.conv2d(gw.ones(1, 1, 2, 2), gw.ones(1, 1, 5, 5))


def test_integers_and_halves_stay_with_numpy() -> None:
    gw.set_eager_kernels("always")
    assert gw.relu(gw.tensor([[-1, 2]])).tolist() == [[0, 2]]
    assert gw.relu(gw.tensor([[-1.0, 2.0]], dtype=gw.float16)).dtype == gw.float16


# -- when ----------------------------------------------------------------------------------------


def _counted() -> tuple[SingleCall, list[int]]:
    """A function with kernels, and how often NumPy computed it."""
    calls: list[int] = []

    def double(x: Any) -> Any:
        if x.__class__ is np.ndarray:
            calls.append(x.size)
        return x + x

    return SingleCall(double), calls


def test_large_arrays_get_a_kernel_at_the_second_call() -> None:
    gw.set_eager_kernels("auto")
    double, calls = _counted()
    small, large = np.ones(LEAST - 1), np.ones(LEAST)
    for _ in range(3):
        assert double(small)[0] == double(large)[0] == 2
    assert calls.count(small.size) == 3 and calls.count(large.size) == 1
    double(large.astype(np.float32))
    assert calls.count(large.size) == 2  # another dtype is another signature


def test_never() -> None:
    gw.set_eager_kernels("never")
    double, calls = _counted()
    for _ in range(3):
        double(np.ones(LEAST))
    assert len(calls) == 3 and not double.kernels


def test_other_modes_are_refused() -> None:
    with pytest.raises(ValueError, match="'auto', 'always', 'never', not 'often'"):
        gw.set_eager_kernels("often")


def test_so_many_shapes_stay_with_numpy() -> None:
    gw.set_eager_kernels("auto")
    double, calls = _counted()
    for size in range(LEAST, LEAST + MOST + 5):
        double(np.ones(size))
    del calls[:]
    double(np.ones(LEAST + MOST + 2))
    double(np.ones(LEAST + MOST + 2))
    assert len(calls) == 2 and len(double.kernels) == MOST


def test_what_cannot_be_traced_stays_with_numpy() -> None:
    gw.set_eager_kernels("always")
    ranks = SingleCall(lambda x: np.argsort(x))
    assert ranks(np.array([3.0, 1.0])).tolist() == [1, 0]
    assert list(ranks.kernels.values()) == [None]


def test_no_kernel_is_made_while_a_function_is_traced() -> None:
    gw.set_eager_kernels("always")
    constant = np.ones((4, 5))
    double, calls = _counted()

    @gw.compile
    def step(x: Any) -> Any:
        return x + float(double(constant)[0, 0]) + x.relu()

    assert float(step(gw.ones(()))) == 4
    assert calls and not double.kernels


# -- beside other tools --------------------------------------------------------------------------


def _loss(x: Any, weight: Any) -> Any:
    y = gw.nn.functional.conv2d(x, weight, padding=1)
    return (gw.softmax(gw.relu(y).flatten(1), 1) ** 2).sum()


def test_second_derivatives() -> None:
    gw.set_eager_kernels("always")
    x, weight = (gw.tensor(_drawn(s, "f8", 0)) for s in ((2, 2, 5, 5), (3, 2, 3, 3)))
    assert gw.gradcheck(_loss, (x.requires_grad_(), weight.requires_grad_()))
    assert gw.gradgradcheck(_loss, (x, weight))


def test_two_passes_over_a_forward_that_numpy_computed() -> None:
    gw.set_eager_kernels("auto")
    x = gw.tensor(_drawn((8, 16, 16, 16), "f4", 5), requires_grad=True)
    loss = (gw.nn.functional.max_pool2d(x, 2, stride=1) ** 2).sum()
    first, *others = (gw.autograd.grad(loss, x, retain_graph=True)[0].numpy() for _ in range(3))
    for other in others:
        np.testing.assert_allclose(other, first, 1e-5, 1e-6)


def test_a_recording_sees_every_operation() -> None:
    x, weight = (gw.tensor(_drawn(s, "f8", 0)) for s in ((2, 2, 5, 5), (3, 2, 3, 3)))

    def recorded(mode: str) -> list[str]:
        gw.set_eager_kernels(mode)
        weight.requires_grad_().grad = None
        with gw.record() as trace:
            _loss(x, weight).backward()
        return [node.op for node in trace.nodes]

    assert recorded("always") == recorded("never")


def test_threads() -> None:
    """Threads that use one kernel at the same time get their own results."""
    gw.set_eager_kernels("always")
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = _drawn((50, 60), "f4", seed)
        expected = np.maximum(x, 0)
        for _ in range(40):
            if not np.array_equal(gw.relu(gw.tensor(x)).numpy(), expected):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


LARGE = "import gradwalk as gw, sys; x = gw.ones(200, 200); [gw.relu(x) for _ in range(3)]; "


@pytest.mark.parametrize(
    ("before", "after", "printed"),
    [
        ("", "print('llvmlite' in sys.modules)", "True"),
        ("import os; os.environ['GRADWALK_EAGER_KERNELS'] = 'never'; ",
         "print('gradwalk.compiler' in sys.modules)", "False"),
        ("import sys; sys.modules['llvmlite'] = None; ",
         "print(float(gw.relu(x).sum()))", "40000.0"),
    ],
    ids=["kernels", "switched off", "without llvmlite"],
)  # fmt: skip
def test_in_a_new_process(before: str, after: str, printed: str) -> None:
    assert _run(before + LARGE + after) == printed


def test_code_is_cached_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADWALK_CACHE", str(tmp_path))
    counts = []
    for _ in range(2):
        _run(LARGE)
        counts.append(sum(path.is_file() for path in tmp_path.rglob("*")))
    assert counts[0] == counts[1] > 0
