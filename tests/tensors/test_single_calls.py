"""Kernels for single eager calls: NumPy's numbers, for every op that has one and its rules."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.tensors.single_calls import LEAST, MOST, OPS, SingleCall
from tests.batches import batched

Case = tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]]

SLIDING = dict(stride=(2, 1), padding=((1, 1), (0, 2)), dilation=(1, 2))
POOLING = dict(kernel=(3, 2), stride=(2, 2), padding=((1, 1), (0, 0)))
BATCH, LAYER = dict(axes=(0, 2), eps=1e-5), dict(axes=(1,), eps=1e-5)


def _convolutions(groups: int, channels: int, outputs: int) -> Iterator[Case]:
    x, y = (3, channels, 9, 10), (3, outputs, 5, 8)
    weight, attrs = (outputs, channels // groups, 3, 3), dict(SLIDING, groups=groups)
    yield "conv", (x, weight), attrs
    yield "conv_bias", (x, weight, (outputs,)), attrs
    yield "conv_input", (y, weight), dict(attrs, shape=(9, 10))
    yield "conv_weight", (x, y), dict(attrs, kernel=(3, 3))


CASES: list[Case] = [
    *_convolutions(1, 3, 20),
    *_convolutions(2, 4, 6),
    *_convolutions(6, 6, 6),  # depthwise
    *_convolutions(3, 3, 9),
    ("gelu", ((70, 9),), {}),
    ("gelu_tanh", ((70, 9),), {}),
    ("hardtanh", ((70, 9),), dict(min_val=0.0, max_val=0.7)),
    ("leaky_relu", ((70, 9),), dict(negative_slope=0.2)),
    ("linear", ((6, 7, 9), (8, 9), (8,)), {}),
    ("log_softmax", ((7, 30, 5),), dict(axis=1)),
    ("matmul", ((30, 9), (9, 20)), {}),
    ("matmul", ((3, 30, 9), (9, 20)), {}),
    ("matmul", ((3, 1, 30, 9), (2, 9, 20)), {}),
    ("pool_spread", ((2, 3, 5, 4),), dict(POOLING, shape=(9, 8))),
    ("pool_sum", ((2, 3, 9, 8),), dict(POOLING, out=(5, 4))),
    ("relu", ((70, 9),), {}),
    ("silu", ((70, 9),), {}),
    ("softmax", ((40, 33),), dict(axis=1)),
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
    operands = [gw.tensor(array, requires_grad=True) for array in arrays]
    out = op(*operands, **attrs)
    g = _drawn(tuple(out.shape), str(out.dtype), 9)
    gradients = gw.autograd.grad(out, operands, gw.tensor(g))
    return [out.detach().numpy(), *(each.numpy() for each in gradients)]


@batched("case", CASES, key=lambda case: case[0])
def test_kernels_give_numpys_numbers(case: Case) -> None:
    name, shapes, attrs = case
    op = TABLE[name]
    for dtype, tolerance in (("f4", 3e-5), ("f8", 1e-12)):
        arrays = [_drawn(shape, dtype, i) for i, shape in enumerate(shapes)]
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
    found = {signature[-1]: kernel for signature, kernel in product.native.kernels.items()}
    turned = [("turned", (a, b)) for a in (False, True) for b in (False, True)]
    assert list(found) == turned and None not in found.values()
    for view in _views(x):
        np.testing.assert_allclose(product(view, y), np.matmul(x, y), 1e-5, 1e-5)


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
        for found, wanted in zip(gradients["always"], gradients["never"], strict=True):
            np.testing.assert_allclose(found, wanted, 1e-10, 1e-12)


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
