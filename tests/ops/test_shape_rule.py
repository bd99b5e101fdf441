"""Shapes and dtypes without computing: symbols go through every sample, tensors beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.ops.core.check import symbolic_env
from gradwalk.ops.core.op import OpError, UnknownShapeError
from gradwalk.ops.core.symbol import Symbol
from tests.ops.samples.table import Sample, all_samples, each_sample

pytestmark = pytest.mark.slow  # thorough rather than quick: left out of `make quick`

# Methods of a tensor that symbols do not have: they are about its memory, its dtype or its graph.
NOT_OF_SYMBOLS = (
    "contiguous", "clone", "detach", "double", "float", "long", "bool", "to", "copy_", "mul_",
)  # fmt: skip


def symbols(sample: Sample, dtype: Any) -> list[Any]:
    return [
        Symbol(f"x{i}", a.shape, a.dtype) for i, a in enumerate(sample.arrays(dtype))
    ]  # integers too: a shape never depends on them


def through_symbols(sample: Sample, dtype: Any = np.float64) -> list[Any] | None:
    """The results as symbols; None where the sample is about something symbols do not have."""
    try:
        found = sample.ours(gw, *symbols(sample, dtype))
    except AttributeError as error:
        if any(f"attribute '{name}'" in str(error) for name in NOT_OF_SYMBOLS):
            return None
        raise
    except UnknownShapeError:
        return None
    return list(found) if isinstance(found, tuple) else [found]


SAMPLES = [s for s in all_samples() if through_symbols(s) is not None]


def test_every_op_has_a_sample_that_symbols_go_through() -> None:
    assert {sample.op for sample in SAMPLES} == set(TABLE)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@each_sample(SAMPLES)
def test_shape_and_dtype_as_computed(sample: Sample, dtype: Any) -> None:
    expected = through_symbols(sample, dtype)
    assert expected is not None
    found = sample.ours(gw, *map(gw.from_numpy, sample.arrays(dtype)))
    for symbol, tensor in zip(expected, found if isinstance(found, tuple) else (found,)):
        assert symbol.shape == tensor.shape
        assert symbol.dtype == tensor.dtype


def applications(results: list[Any]) -> Iterator[Symbol]:
    """Every op application that the results were made by."""
    seen: set[int] = set()
    stack = list(results)
    while stack:
        symbol = stack.pop()
        if isinstance(symbol, Symbol) and symbol.op is not None and id(symbol) not in seen:
            seen.add(id(symbol))
            stack += symbol.args
            yield symbol


@each_sample(SAMPLES)
def test_every_rule_can_be_read_as_a_formula(sample: Sample) -> None:
    """Each rule runs on symbols, and what it returns has the shape of its input, or broadcasts."""
    for symbol in applications(through_symbols(sample) or []):
        op = symbol.op
        assert op is not None
        if op.array_only:  # its graph readings go through the expansion
            expanded = op.expand(*symbol.args, **symbol.attrs)
            expanded = expanded[symbol.index] if op.multiple else expanded
            assert expanded.shape == symbol.shape
            continue
        shapes = tuple(tuple(getattr(a, "shape", ())) for a in symbol.args)
        env = symbolic_env(op, shapes, symbol.attrs)
        for position, shape in enumerate(shapes):
            rule = op.rule(position)
            if rule is None or rule.constant is not None:  # a bare 1 stands for g itself
                continue
            place = {"position": position - len(op.inputs) + 1}
            found = rule.local({**env, **place}, env["g"])
            given = tuple(getattr(found, "shape", ()))
            if op.elementwise:
                assert np.broadcast_shapes(given, symbol.shape) == symbol.shape
            elif op.broadcasts:
                assert np.broadcast_shapes(given, shape) == given
            else:
                assert given == shape


def test_the_shape_of_a_masked_tensor_is_refused() -> None:
    x, mask = Symbol("x", (3,)), Symbol("m", (3,), np.dtype(bool))
    with pytest.raises(UnknownShapeError, match="not known before the mask is"):
        x[mask]


def test_a_symbol_has_no_truth() -> None:
    with pytest.raises(OpError, match="may not branch on its operands"):
        bool(Symbol("x") > 0)
