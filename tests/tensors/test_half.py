"""float16 and bfloat16 as dtypes of tensors."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

HALVES = ["bfloat16", "float16"]
DTYPES = ["bfloat16", "float16", "float32", "float64", "int64", "uint8", "bool"]


def test_promotion_is_pytorchs() -> None:
    for one, other in itertools.product(DTYPES, DTYPES):
        for shapes in itertools.product([(2,), ()], [(2,), ()]):
            mine = [gw.ones(s, dtype=getattr(gw, d)) for s, d in zip(shapes, (one, other))]
            theirs = [torch.ones(s, dtype=getattr(torch, d)) for s, d in zip(shapes, (one, other))]
            found, expected = mine[0] * mine[1], theirs[0] * theirs[1]
            assert f"torch.{found.dtype}" == str(expected.dtype), (one, other, shapes)
        for number in (1, 1.5, True):
            found, expected = mine[0] * number, theirs[0] * number
            assert f"torch.{found.dtype}" == str(expected.dtype), (one, number)


@pytest.mark.parametrize("name", HALVES)
def test_an_op_rounds_once(name: str) -> None:
    dtype = getattr(gw, name)
    x = np.linspace(-3, 3, 101).astype(dtype)
    y = np.linspace(0.3, 2, 101).astype(dtype)
    wide = x.astype(np.float32), y.astype(np.float32)
    ours = gw.lerp(gw.tensor(x), gw.tensor(y), 0.3)
    want = gw.lerp(gw.tensor(wide[0]), gw.tensor(wide[1]), 0.3).numpy().astype(dtype)
    np.testing.assert_array_equal(ours.numpy(), want)
    assert gw.ones(1000, dtype=dtype).sum().item() == 1000  # sums are in float32
    one = gw.tensor(x, requires_grad=True)
    gw.tanh(one).backward(gw.tensor(y))
    slope = (1 - np.tanh(wide[0]).astype(dtype).astype(np.float32) ** 2) * wide[1]
    np.testing.assert_array_equal(one.grad.numpy(), slope.astype(dtype))


@pytest.mark.parametrize("name", HALVES)
def test_text_numbers_and_copies(name: str) -> None:
    dtype, theirs = getattr(gw, name), getattr(torch, name)
    numbers = [[1.0, -2.5, 1e-3], [0.1, 100.0, 3.14159]]
    mine = gw.tensor(numbers, dtype=dtype)
    expected = torch.tensor(numbers, dtype=theirs)
    assert str(mine).replace("gradwalk", "torch") == str(expected)
    assert mine.tolist() == expected.tolist()
    assert mine[0, 1].item() == -2.5 and float(mine[0, 0]) == 1.0
    assert mine.element_size() == 2 and mine.is_floating_point()
    assert mine.numpy().dtype == dtype  # ml_dtypes' bfloat16, where PyTorch's raises
    assert float(gw.finfo(dtype).max) == torch.finfo(theirs).max
    assert float(gw.finfo(dtype).eps) == torch.finfo(theirs).eps
    model = gw.nn.Linear(3, 2)
    assert getattr(model, {"float16": "half"}.get(name, name))().weight.dtype == dtype
    assert model.float().weight.dtype == gw.float32
    for draw in (gw.rand, gw.randn):
        assert draw(50, dtype=dtype).dtype == dtype
    assert bool((gw.rand(5000, dtype=dtype) < 1).all())


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam"])
def test_optimizers_step_in_float32_and_round_once(name: str, kind: str) -> None:
    dtype = getattr(gw, name)
    start, slope = gw.randn(4, 3).to(dtype), gw.randn(4, 3).to(dtype)
    half, wide = start.clone().requires_grad_(), start.float().requires_grad_()
    make: Any = getattr(gw.optim, kind)
    optimizers = [make([p], lr=0.1) for p in (half, wide)]
    for optimizer, p in zip(optimizers, (half, wide)):
        p.grad = slope.to(p.dtype).clone()
        optimizer.step()
    np.testing.assert_array_equal(half.detach().numpy(), wide.detach().to(dtype).numpy())
    for value in optimizers[0].state_dict()["state"].get(0, {}).values():
        assert not isinstance(value, gw.Tensor) or value.dtype == dtype


def test_without_ml_dtypes_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import gradwalk as gw\n"
        "gw.ones(2, dtype=gw.float16) + 1\n"
        "gw.bfloat16"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "gradwalk[xla]"' in done.stderr.splitlines()[-1]


def test_overflow_of_float16_is_found() -> None:
    x = gw.tensor([300.0], dtype=gw.float16, requires_grad=True)

    def loss() -> Any:
        return (x * x - x * x).sum()

    found = str(gw.find_nan(loss))
    assert "beyond the largest float16, 6.6e+04" in found
    assert "bfloat16" in found


@pytest.mark.parametrize("name", HALVES)
def test_traces_keep_halves(name: str, tmp_path: Any) -> None:
    dtype = getattr(gw, name)
    x = gw.randn(20, 20).to(dtype).requires_grad_()
    with gw.record() as trace:
        (x @ x).sum().backward()
    path = tmp_path / "trace.safetensors"
    gw.save_trace(trace, path)
    loaded = gw.load_trace(path)
    (value,) = loaded.nodes[0].values
    assert value.dtype == dtype
    np.testing.assert_array_equal(value, x.detach().numpy())
