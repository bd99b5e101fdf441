"""Every elementwise op that has a spelling, compiled, against its own definition in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gradwalk.compiler.backends.llvm.emit.elementwise_table import (
    EMITTERS,
    WHOLE,
    emit,
    is_cheap,
    is_native,
)
from gradwalk.compiler.backends.llvm.emit.functions import ERRORS
from gradwalk.compiler.backends.llvm.emit.ir_builder import IRBuilder
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.symbol import output_dtypes
from tests.compiler.map_kernel import Array, MapKernel, compile_maps
from tests.ops.domains import domain_of
from tests.ops.samples.table import attributes_of

DTYPES = [np.dtype(d) for d in ("f4", "f8", "i8", "i4", "i2", "i1", "u1", "?")]
ELEMENTWISE = [op for op in TABLE.values() if op.elementwise]
INEXACT = {name for name, spelling in EMITTERS.items() if not spelling.cheap} - {
    "div_floor", "floor_divide", "div_trunc", "remainder", "fmod",
}  # fmt: skip


def arguments(op: Op, dtype: np.dtype[Any]) -> list[Array]:
    """Random operands from the op's domain, then all combinations of special ones."""
    source = np.random.default_rng(7)
    count = len(op.inputs)
    if dtype.kind == "f":
        drawn = [source.uniform(*ends, 100).astype(dtype) for ends in domain_of(op, 3.0)]
        info = np.finfo(dtype)
        edges = [0.0, 0.5, 1.0, 2.0, 2.5, 33.0, info.smallest_subnormal, info.tiny, np.inf]
        special = np.array([*edges, *np.negative(edges), np.nan], dtype)
        if count < 3:
            large = np.array([info.max, -info.max, 100.5, -100.5, 1e6], dtype)
            special = np.concatenate([special, large])
    elif dtype.kind == "b":
        drawn, special = [np.zeros(0, bool) for _ in range(count)], np.array([False, True])
    else:
        info = np.iinfo(dtype)  # type: ignore[assignment]
        drawn = [source.integers(-20 if info.min else 0, 20, 100).astype(dtype)] * count
        # −info.max rather than info.min: |info.min| is no number of the dtype, see below
        edges = [0, 1, 2, 3, 7, info.max, *((-1, -2, -5, -info.max) if info.min else ())]
        special = np.array(edges, dtype)
    crossed = list(itertools.product(special, repeat=count))
    found = [np.concatenate([d, np.array(c, dtype)]) for d, c in zip(drawn, zip(*crossed))]
    if op.name == "where":
        found[0] = source.integers(0, 2, found[1].size).astype(bool)
    return found


def variants(op: Op) -> list[tuple[np.dtype[Any], dict[str, Any]]]:
    """The dtypes and attributes to try an op with: all that are native."""
    found = []
    for dtype in DTYPES:
        if op.to_float and dtype.kind != "f":
            continue  # the operands become floats first: `test_operands_become_floats`
        for attrs in attributes_of(op):
            full = {**op.defaults, **attrs}
            if is_native(op, [dtype] * len(op.inputs), full):
                found.append((dtype, full))
    return found


def reference(op: Op, xs: list[Array], attrs: dict[str, Any]) -> Array:
    with np.errstate(all="ignore"):
        return op.forward(*xs, **attrs)


def map_of(
    op: Op, dtypes: Sequence[Any], attrs: dict[str, Any], result: Any, name: str = "map"
) -> MapKernel:
    def body(f: IRBuilder, lanes: int, xs: list[Vector]) -> Vector:
        return emit(op, xs, attrs, result, f, lanes)

    return MapKernel(body, dtypes, result, name)


@pytest.mark.parametrize(
    "op", [op for op in ELEMENTWISE if op.name in EMITTERS], ids=lambda op: op.name
)
def test_as_in_numpy(op: Op) -> None:
    tried = []
    for number, (dtype, attrs) in enumerate(variants(op)):
        xs = arguments(op, dtype)
        (result,) = output_dtypes(op, tuple(xs), attrs, 1)
        kernel = map_of(op, [x.dtype for x in xs], attrs, result, f"map{number}")
        tried.append((kernel, dtype, attrs, xs))
    assert {dtype.name for _, dtype, _, _ in tried} >= (
        {"int64", "bool"} if EMITTERS[op.name].kinds == WHOLE else {"float32", "float64"}
    )
    compile_maps([kernel for kernel, _, _, _ in tried])
    for kernel, dtype, attrs, xs in tried:
        compare(op, kernel(*xs), reference(op, xs, attrs), xs, f"{dtype} {attrs}")


def compare(op: Op, found: Array, wanted: Array, xs: list[Array], label: str) -> None:
    """Equal; the functions of `functions/` within what NumPy's and ours may be apart.

    `test_functions.py` measures ours against the truth.
    """
    assert found.dtype == wanted.dtype, label
    if xs[-1].dtype.kind != "f" or op.name not in INEXACT:
        np.testing.assert_array_equal(found, wanted, err_msg=label)
        return
    if op.name == "lgamma":  # SciPy says inf there
        subnormal = (xs[0] != 0) & (np.abs(xs[0]) < np.finfo(xs[0].dtype).tiny)
        found, wanted = found[~subnormal], wanted[~subnormal]
    if op.name == "polygamma":  # SciPy adds up from there, and loses digits
        left = (xs[0] < 0) & np.isfinite(wanted)
        found, wanted = found[~left], wanted[~left]
    eps = np.finfo(found.dtype).eps
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, wanted, rtol=8 * eps, atol=eps, err_msg=label)


def test_what_is_not_native() -> None:
    missing = {op.name for op in ELEMENTWISE} - EMITTERS.keys()
    assert not missing
    floats, whole, truth = (np.dtype(d) for d in ("f4", "i8", "?"))
    assert not is_native(TABLE["matmul"], [floats, floats])
    assert is_native(TABLE["polygamma"], [floats], {"n": 3})
    assert not is_native(TABLE["polygamma"], [floats], {"n": 200})  # 200! is no float
    assert not is_native(TABLE["sub"], [truth, truth])  # nor in NumPy
    assert is_native(TABLE["sub"], [truth, floats])
    assert not is_native(TABLE["power"], [whole], {"exponent": 0.5})
    assert not is_native(TABLE["add"], [np.dtype("u2"), floats])
    assert is_native(TABLE["where"], [truth, floats, whole])
    assert is_native(TABLE["where"], [truth, floats, 0])
    assert not is_native(TABLE["bitwise_and"], [whole, 2.5]) and is_native(
        TABLE["bitwise_and"], [whole, 2]
    )
    assert not is_native(TABLE["power"], [whole], {"exponent": -1})
    f = IRBuilder("f", "")
    x = Vector(f, Type(floats), "%x")
    with pytest.raises(NoKernel, match="matmul"):
        emit(TABLE["matmul"], [x, x], {}, floats, f, 1)
    with pytest.raises(NoKernel, match="bitwise_and of float32"):
        emit(TABLE["bitwise_and"], [x, x], {}, floats, f, 1)
    with pytest.raises(NoKernel, match="power of int64 with"):
        n = Vector(f, Type(whole), "%n")
        emit(TABLE["power"], [n], {"exponent": -1}, whole, f, 1)


def test_what_is_cheap() -> None:
    assert is_cheap(TABLE["mul"]) and is_cheap(TABLE["where"]) and not is_cheap(TABLE["exp"])
    assert not is_cheap(TABLE["digamma"]) and not is_cheap(TABLE["power"])
    assert is_cheap(TABLE["power"], {"exponent": 2})


def test_every_function_has_a_stated_error() -> None:
    made_of_others = {
        "logaddexp", "logaddexp2", "xlogy", "logit", "sinc", "softplus", "logsigmoid", "silu",
        "mish", "elu",
    }  # fmt: skip
    with_attributes = {"power", "polygamma"}
    assert ERRORS.keys() == INEXACT - made_of_others - with_attributes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cast(dtype: np.dtype[Any]) -> None:
    values = np.array([0, 1, 2, 3.7, -1.2, -3.7, 100, 0.5, -0.5, 7, 300, 70000.0] * 3)
    kernels = [
        map_of(TABLE["cast"], [source], {"dtype": dtype}, dtype, f"from_{source.name}")
        for source in DTYPES
    ]
    compile_maps(kernels)
    for source, kernel in zip(DTYPES, kernels):
        x = values.astype(source)
        if source.kind in "iu":
            x = values.astype(np.int64).astype(source)
        if source.kind == "f" and dtype == np.uint8:
            x = np.abs(x)  # a negative number has no unsigned one, in NumPy neither
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(kernel(x), x.astype(dtype), err_msg=f"from {source}")


@pytest.mark.parametrize("name", ["div", "exp", "sqrt", "copysign", "hardsigmoid"])
@pytest.mark.parametrize("dtype", ["i8", "u1", "?"])
def test_operands_become_floats(name: str, dtype: str) -> None:
    op = TABLE[name]
    xs = [np.array([1, 0, 3, 2, 1] * 7).astype(dtype) for _ in op.inputs]
    found = map_of(op, [x.dtype for x in xs], {}, np.float32)(*xs)
    wanted = reference(op, [x.astype(np.float32) for x in xs], {})
    np.testing.assert_allclose(found, wanted, rtol=2e-7)


@pytest.mark.parametrize(
    "name, number, dtype",
    [
        ("add", 2.5, "f4"), ("mul", 3, "f8"), ("maximum", 0, "f4"), ("minimum", float("nan"), "f4"),
        ("pow", 2, "f4"), ("pow", -3, "f4"), ("pow", 0.7, "f4"), ("pow", 5, "f8"), ("pow", 3, "i8"),
        ("pow", float("inf"), "f4"), ("less", 300, "u1"), ("equal", -1, "u1"), ("greater", 2, "i4"),
        ("less", 0.1, "f4"), ("sub", 1e300, "f4"), ("bitwise_and", 6, "i2"), ("lerp", 0.3, "f4"),
    ],
)  # fmt: skip
def test_python_numbers(name: str, number: float, dtype: str) -> None:
    """They stay weak, on either side."""
    op = TABLE[name]
    x = np.array([0, 1, 2, 3, 5, 200, 7, 1, 0, 2, 3, 4, 9, 100, 50, 4, 1, 2, 3, 4]).astype(dtype)
    (result,) = output_dtypes(op, (x, number), {}, 1)
    sides = [lambda v: [v, number], lambda v: [number, v]]
    if name == "lerp":
        sides = [lambda v: [v, 2.0, number], lambda v: [1, v, number]]
    for side in sides:
        kernel = MapKernel(
            lambda f, lanes, xs, side=side: emit(op, side(xs[0]), {}, result, f, lanes), [dtype],
            result,
        )  # fmt: skip
        with np.errstate(all="ignore"):
            wanted = op.forward(*side(x))
        np.testing.assert_allclose(kernel(x), wanted, rtol=2.5e-7)


def test_mixed_operands() -> None:
    """Values of several dtypes, of one lane and of many."""
    add, where = TABLE["add"], TABLE["where"]
    x, y = np.arange(37, dtype=np.int64) - 5, np.linspace(-1, 1, 37, dtype=np.float32)
    found = map_of(add, [x.dtype, y.dtype], {}, np.float32)(x, y)
    np.testing.assert_array_equal(found, x.astype(np.float32) + y)
    found = map_of(where, [x.dtype, y.dtype, x.dtype], {}, np.float32)(x, y, x)
    np.testing.assert_array_equal(found, np.where(x, y, x.astype(np.float32)))

    def one_lane(f: IRBuilder, lanes: int, values: list[Vector]) -> Vector:
        half = Vector(f, Type(np.dtype(np.float32)), Type(np.dtype(np.float32)).constant(0.5))
        return emit(add, [values[0], half], {}, np.float32, f, lanes)

    found = MapKernel(one_lane, [np.float32], np.float32)(y)
    np.testing.assert_array_equal(found, y + np.float32(0.5))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "div_trunc"])
@pytest.mark.parametrize("dtype", ["i1", "i8"])
def test_the_smallest_integer(name: str, dtype: str) -> None:
    """Divided by −1 its quotient is no number of the dtype: the processor must not trap."""
    smallest = np.iinfo(dtype).min
    x = np.full(37, smallest, dtype)
    y = np.resize(np.array([-1, 0, 1, smallest], dtype), 37)
    found = map_of(TABLE[name], [x.dtype] * 2, {}, x.dtype)(x, y)
    with np.errstate(all="ignore"):
        if name == "div_trunc":  # the definition takes |x|; this is the exact quotient, wrapped
            divisor = np.where(y == 0, 1, y).astype(object)
            wanted = np.where(y == 0, 0, (x.astype(object) // divisor)).astype(object)
            wanted = np.array([(int(v) + 2**63) % 2**64 - 2**63 for v in wanted]).astype(dtype)
        else:
            wanted = reference(TABLE[name], [x, y], {})
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("size", [0, 1, 7, 17])
def test_odd_sizes(size: int) -> None:
    x = np.linspace(-2, 2, size, dtype=np.float32)
    found = map_of(TABLE["tanh"], [x.dtype], {}, x.dtype)(x)
    np.testing.assert_allclose(found, np.tanh(x), rtol=4e-7)
