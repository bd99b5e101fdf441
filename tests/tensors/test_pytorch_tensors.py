"""What PyTorch's own tests of tensors found (`tools/pytorch_tests`): making, copying, clamping."""

from __future__ import annotations

import array
import copy
import io
import pickle
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.utils import dlpack
from tests.batches import batched


def _both(call: Callable[[Any], Any]) -> None:
    """The same numbers and dtypes in both libraries."""
    ours, theirs = call(gw), call(torch)
    assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
    np.testing.assert_array_equal(ours.detach().float().numpy(), theirs.detach().float().numpy())


# -- making tensors --------------------------------------------------------------------------------

_REFUSED: dict[str, Callable[[Any], Any]] = {
    "more numbers than int8": lambda lib: lib.randperm(129, dtype=lib.int8),
    "more numbers than uint8": lambda lib: lib.randperm(257, dtype=lib.uint8),
    "more numbers than float16": lambda lib: lib.randperm(2050, dtype=lib.float16),
    "too wide a range": lambda lib: lib.zeros(2).uniform_(-3e38, 3e38),
    "too wide for a half": lambda lib: lib.zeros(2, dtype=lib.float16).uniform_(-6e4, 6e4),
    "an empty buffer": lambda lib: lib.frombuffer(np.array([]), dtype=lib.float32),
    "no elements": lambda lib: lib.frombuffer(b"abcd", dtype=lib.uint8, count=0),
    "after the end": lambda lib: lib.frombuffer(b"abcd", dtype=lib.uint8, offset=4),
    "before the start": lambda lib: lib.frombuffer(b"abcd", dtype=lib.uint8, offset=-1),
    "a list is copied": lambda lib: lib.asarray([1.0], copy=False),
    "a number is copied": lambda lib: lib.asarray(np.float64(0.5), copy=False),
    "another dtype": lambda lib: lib.asarray(np.ones(2), dtype=lib.float32, copy=False),
    "complex ends": lambda lib: lib.linspace(0, 1j, 3, dtype=lib.float32),
    "complex powers": lambda lib: lib.logspace(0, 1j, 3, dtype=lib.float32),
    "a storage of another dtype": lambda lib: lib.tensor(lib.zeros(2).storage(), dtype=lib.int64),
    "a range without steps": lambda lib: lib.range(2, 1),
    "integers to a root": lambda lib: lib.tensor([4, 9]).pow_(0.5),
    "integers to a power": lambda lib: lib.tensor([4, 9]).pow_(2.0),
    "integers above a float": lambda lib: lib.tensor([2, 3]).clamp_(2.5),
    "a power between": lambda lib: lib.linalg.matrix_power(lib.eye(2), 1.5),
    "a norm over three": lambda lib: lib.linalg.norm(lib.ones(2, 2, 2), 1, (0, 1, 2)),
    "a norm of nothing": lambda lib: lib.linalg.vector_norm(lib.zeros(0), -1),
    "no matrix between": lambda lib: lib.linalg.multi_dot(
        [lib.ones(2), lib.ones(2, 2, 2), lib.ones(2)]
    ),
    "a chain of vectors": lambda lib: lib.chain_matmul(lib.ones(2), lib.ones(2)),
    "pivots from 0": lambda lib: lib.linalg.lu_solve(
        lib.eye(2), lib.tensor([0, 2], dtype=lib.int32), lib.ones(2, 1)
    ),
    "pivots beyond the rows": lambda lib: lib.lu_unpack(
        lib.eye(2), lib.tensor([3, 2], dtype=lib.int32)
    ),
    "a digit in einsum": lambda lib: lib.einsum("1", lib.ones(2)),
    "a dot in einsum": lambda lib: lib.einsum(".", lib.ones(2)),
}


@pytest.mark.filterwarnings("ignore:torch.range", "ignore:TypedStorage", "ignore:The given buffer")
@batched("name", _REFUSED)
def test_what_would_be_another_result_without_an_error(name: str) -> None:
    for lib in (torch, gw):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            _REFUSED[name](lib)


def test_most_numbers_of_a_dtype_in_random_order() -> None:
    for n, dtype in ((128, gw.int8), (256, gw.uint8), (2049, gw.float16)):
        found = gw.randperm(n, dtype=dtype)
        assert sorted(found.tolist()) == list(range(n))


@pytest.mark.filterwarnings("ignore:torch.range")
@pytest.mark.parametrize("ends", [(0, 10), (1, 2, 0.25), (5, 0, -1), (1, 2.3, 0.5), (3, 3)])
def test_range_includes_its_end(ends: tuple[float, ...]) -> None:
    _both(lambda lib: lib.range(*ends))
    _both(lambda lib: lib.range(0, 5, dtype=lib.int64))


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_tensors_of_storages() -> None:
    for lib in (gw, torch):
        x = lib.arange(3.0)
        assert lib.tensor(x.untyped_storage(), dtype=lib.float32).tolist() == [0, 1, 2]
        assert lib.tensor(x.storage(), dtype=lib.float32).tolist() == [0, 1, 2]
        assert lib.FloatTensor.dtype is lib.float32


class _Exporter:
    """Of a library that speaks DLPack and nothing else."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


def test_capsules_and_exporters_of_memory() -> None:
    x = gw.arange(4.0)
    shared = dlpack.from_dlpack(gw.to_dlpack(x))
    x[0] = 7
    assert shared.tolist() == [7, 1, 2, 3]
    theirs = torch.arange(3)
    assert gw.from_dlpack(torch.utils.dlpack.to_dlpack(theirs)).tolist() == [0, 1, 2]
    assert torch.utils.dlpack.from_dlpack(dlpack.to_dlpack(x)).tolist() == [7, 1, 2, 3]
    for make in (gw.tensor, gw.as_tensor, gw.asarray):
        assert make(_Exporter(theirs)).tolist() == [0, 1, 2]
    assert gw.asarray(np.ones(0, "f4"), copy=False).shape == (0,)
    aliased = gw.asarray(_Exporter(x), copy=False)
    x[1] = 5
    assert aliased.tolist() == [7, 5, 2, 3]
    assert gw.frombuffer(array.array("i", [1, 2]), dtype=gw.int32).tolist() == [1, 2]


# -- copies ----------------------------------------------------------------------------------------


def test_what_a_program_sets_on_a_tensor_is_copied_with_it() -> None:
    for lib in (torch, gw):
        x, p = lib.ones(2), lib.nn.Parameter(lib.ones(2))
        x.group, p.group = ["a"], ["b"]
        deep = copy.deepcopy(x)
        assert deep.group == ["a"] and deep.group is not x.group
        assert not hasattr(copy.deepcopy(p), "group")
        assert copy.copy(x).group is x.group and copy.copy(p).group is p.group
        for given in (x, p):
            assert pickle.loads(pickle.dumps(given)).group == given.group
        assert not hasattr(x.detach(), "group")


def test_deep_copies_of_views_share_memory() -> None:
    for lib in (torch, gw):
        x = lib.arange(6.0)
        given = {"x": x, "flat": x.view(2, 3), "part": x[2:5:2], "swapped": x.view(2, 3).T}
        for order in (list(given), list(given)[::-1]):
            copied = copy.deepcopy({name: given[name] for name in order})
            copied["x"].add_(10)
            assert copied["flat"].tolist() == [[10, 11, 12], [13, 14, 15]]
            assert copied["part"].tolist() == [12, 14]
            assert copied["swapped"].tolist() == [[10, 13], [11, 14], [12, 15]]
        assert x.tolist() == [0, 1, 2, 3, 4, 5]
    expanded = copy.deepcopy(gw.ones(1).expand(3))
    assert expanded.add_(1).tolist() == [2, 2, 2]


def test_sizes_of_storages_count_the_memory() -> None:
    for lib in (torch, gw):
        assert 4000 <= sys.getsizeof(lib.zeros(1000).untyped_storage()) < 4200


def test_a_saved_file_can_be_read_while_it_is_open() -> None:
    with tempfile.NamedTemporaryFile() as file:
        gw.save({"a": gw.ones(3)}, file)
        assert gw.load(file.name)["a"].tolist() == [1, 1, 1]
    memory = io.BytesIO()
    gw.save({"a": 1}, memory, pickle_protocol=4, _use_new_zipfile_serialization=False)
    memory.seek(0)
    assert gw.load(memory) == {"a": 1}


# -- sums into places, bounds, products ------------------------------------------------------------

_EMPTY: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    f"{name} {reduce}": (
        lambda lib, x, index, src, name=name, reduce=reduce: getattr(lib, name)(
            x, 0, index, src, reduce
        )
    )
    for name in ("scatter_reduce", "index_reduce")
    for reduce in ("prod", "mean", "amax", "amin")
} | {
    "scatter_reduce sum": lambda lib, x, index, src: x.scatter_reduce(0, index, src, "sum"),
    "masked_scatter": lambda lib, x, index, src: x.masked_scatter(x > 9, src),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@batched("name", _EMPTY)
def test_nothing_written_is_part_of_the_graph(name: str) -> None:
    for lib in (torch, gw):
        src = lib.zeros(0, requires_grad=True)
        out = _EMPTY[name](lib, lib.arange(3.0), lib.zeros(0, dtype=lib.int64), src)
        out.sum().backward()
        assert out.tolist() == [0, 1, 2]
        assert src.grad.tolist() == []


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_a_half_at_the_bound_passes_its_gradient(half: str) -> None:
    def gradient(lib: Any, low: float | None, high: float | None) -> Any:
        x = lib.tensor([0.3, 0.2998, 0.301, -0.3, 0.5], dtype=getattr(lib, half))
        x.requires_grad_()
        x.clamp(low, high).sum().backward()
        return x.grad

    for low, high in ((-0.3, 0.3), (None, 0.3), (0.3, None)):
        _both(lambda lib, low=low, high=high: gradient(lib, low, high))


@pytest.mark.filterwarnings("ignore:This overload")
def test_beta_alone_by_position() -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda lib: lib.ones(2, 2).addmm_(3, lib.ones(2, 3), lib.ones(3, 2)),
        lambda lib: lib.addmm(3, lib.ones(2, 2), lib.ones(2, 3), lib.ones(3, 2)),
        lambda lib: lib.ones(2, 2, 2).baddbmm_(3, lib.ones(2, 2, 3), lib.ones(2, 3, 2)),
        lambda lib: lib.ones(2, 2).addbmm_(3, lib.ones(2, 2, 3), lib.ones(2, 3, 2)),
        lambda lib: lib.ones(2).addmv_(3, lib.ones(2, 2), lib.ones(2)),
        lambda lib: lib.ones(2, 2).addr_(3, lib.ones(2), lib.ones(2)),
    ]
    for call in calls:
        _both(call)


def test_the_nuclear_condition_of_a_singular_matrix() -> None:
    _both(lambda lib: lib.linalg.cond(lib.stack([lib.ones(2, 2), lib.eye(2)]), "nuc"))


def test_elements_on_the_edges_of_bins() -> None:
    rng = np.random.default_rng(0)
    for dtype, scale, bins in (("f4", 10, 34), ("f8", 7, 13), ("f4", 100, 48), ("f8", 3, 60)):
        numbers = (rng.integers(-20, 20, 300) / scale).astype(dtype)
        for ends in ((), (0.5, 0.9), (-0.3, 0.7), (-2, 1)):
            found, expected = (lib.histc(lib.tensor(numbers), bins, *ends) for lib in (gw, torch))
            assert found.tolist() == expected.tolist(), (dtype, scale, bins, ends)


def test_large_integers_without_a_tolerance() -> None:
    for lib in (torch, gw):
        x = lib.tensor(2**53)
        assert not bool(lib.isclose(x, x + 1, rtol=0, atol=0))


def test_no_element_of_an_expanded_tensor_is_changed_in_place() -> None:
    for lib in (torch, gw):
        assert lib.zeros(1, 3).expand(4, 3)[:0].fill_(1).shape == (0, 3)


def test_switches_that_programs_ask_for() -> None:
    assert gw.get_deterministic_debug_mode() == 0
    try:
        gw.use_deterministic_algorithms(True, warn_only=True)
        assert gw.is_deterministic_algorithms_warn_only_enabled()
        assert gw.are_deterministic_algorithms_enabled()
        gw.set_deterministic_debug_mode("error")
        assert gw.get_deterministic_debug_mode() == 2
        with pytest.raises(ValueError, match="default, warn, error"):
            gw.set_deterministic_debug_mode("never")
    finally:
        gw.use_deterministic_algorithms(False)
    assert gw.set_flush_denormal(True) is False
    assert gw.GradScaler is gw.amp.GradScaler
    with gw.autocast("cpu", dtype=gw.float16):
        assert gw.is_autocast_cpu_enabled() and gw.get_autocast_cpu_dtype() == gw.float16
    assert gw.get_autocast_gpu_dtype() == gw.float16
    assert gw.ones(1).new(size=(2, 3)).shape == (2, 3)
