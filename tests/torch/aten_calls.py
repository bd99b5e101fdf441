"""Calls of ATen operations, as programs make them, and a check of their translations."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode
from gradwalk.ops import TABLE as OPS
from gradwalk.torch.translate import LEAF, Known, Made, translate

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


class Collector(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keep a copy of every call that has a translation."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if translate(func, args, kwargs) is not None:
            self.calls.append((func, copied(args), copied(kwargs)))
        return func(*args, **kwargs)


def copied(given: Any) -> Any:
    """A copy of the arguments with new tensors; a tensor given twice stays one."""
    made: dict[int, torch.Tensor] = {}

    def copy(thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor):
            return thing
        if id(thing) not in made:
            made[id(thing)] = thing.detach().clone()
        return made[id(thing)]

    return tree_map(copy, given)


def calls_of(program: Callable[[], Any]) -> list[Call]:
    """The translated calls that a program makes, including its backward pass."""
    with Collector() as collector:
        program()
    return collector.calls


def tensors_in(given: Any) -> list[torch.Tensor]:
    return [t for t in tree_flatten(given)[0] if isinstance(t, torch.Tensor)]


def numpy_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    found = tensor.detach().resolve_conj()
    found = torch.view_as_real(found) if found.is_complex() else found
    return (found.float() if found.dtype == torch.bfloat16 else found).numpy(force=True)


def has_gradient(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def check(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Known:
    """Assert that our op's values and gradients equal those of the operation."""
    known = translate(func, args, kwargs)
    assert known is not None
    if known.op == LEAF:
        return known
    assert known.op in OPS
    operands = [t for t in dict.fromkeys(tensors_in((args, kwargs))) if has_gradient(t)]
    leaves, outputs = run_with_graph(func, args, kwargs, operands)
    trace, node = as_node(known, args, kwargs, outputs)
    for found, k in zip(replay.forward(trace, node), known.outputs, strict=True):
        same(found, outputs[k], f"output {k}")
    check_gradients(trace, node, known, leaves, outputs)
    return known


Leaves = dict[int, torch.Tensor]  # the id of an operand -> its copy that requires a gradient


def run_with_graph(
    func: Any, args: Any, kwargs: Any, operands: list[torch.Tensor]
) -> tuple[Leaves, list[torch.Tensor]]:
    """The outputs of a call, and copies of the operands that can have a gradient."""
    while True:
        leaves = {id(t): t.clone().requires_grad_() for t in operands}
        # On clones, since an in-place operation may not change a leaf.
        given = {key: leaf.clone() for key, leaf in leaves.items()}
        args_here, kwargs_here = tree_map(
            lambda t, given=given: (
                given.get(id(t), t.clone()) if isinstance(t, torch.Tensor) else t
            ),
            (args, kwargs),
        )
        try:
            return leaves, tensors_in(func(*args_here, **kwargs_here))
        except RuntimeError as error:
            refused = re.search(r"with respect to argument '(\w+)'", str(error))
            if refused is None:
                raise
            names = [a.name for a in func._schema.arguments]
            without = (dict(zip(names, args, strict=False)) | kwargs)[refused[1]]
            operands = [t for t in operands if t is not without]


def as_node(
    known: Known, args: Any, kwargs: Any, outputs: list[torch.Tensor]
) -> tuple[Trace, TraceNode]:
    """A trace of the operands and the one operation."""
    trace = Trace()
    edges: list[Any] = []
    for argument in known.args:
        array = None
        if isinstance(argument, Made):
            array = numpy_of(outputs[argument.output])
        elif isinstance(argument, torch.Tensor):
            assert any(argument is t for t in tensors_in((args, kwargs)))
            array = numpy_of(argument)
        if array is None:
            edges.append(argument)
            continue
        leaf = TraceNode(0, "", metas=((array.shape, str(array.dtype)),), values=[array])
        leaf.needs_grad = array.dtype.kind == "f"
        edges.append(Edge(trace.add(leaf)))
    metas = tuple((numpy_of(o).shape, str(numpy_of(o).dtype)) for o in outputs)
    node = TraceNode(
        0, known.op, tuple(edges), known.attrs, metas=tuple(metas[k] for k in known.outputs)
    )
    node.values = [numpy_of(outputs[k]) for k in known.outputs]
    trace.add(node)
    return trace, node


def check_gradients(
    trace: Trace,
    node: TraceNode,
    known: Known,
    leaves: Leaves,
    outputs: list[torch.Tensor],
) -> None:
    op = OPS[known.op]
    ours = [outputs[k] for k in known.outputs]
    seeds = [torch.randn_like(o) if o.requires_grad else None for o in ours]
    roots = [(o, g) for o, g in zip(ours, seeds, strict=True) if g is not None]
    if not roots:
        return
    try:
        theirs = torch.autograd.grad(
            [o for o, _ in roots], list(leaves.values()), [g for _, g in roots], allow_unused=True
        )
    except RuntimeError as error:  # only values can be compared
        if "derivative for" not in str(error):
            raise
        return
    parts: Any = [None if g is None else numpy_of(g) for g in seeds]
    if op.multiple:
        parts = [
            np.zeros_like(numpy_of(o)) if p is None and has_gradient(o) else p
            for p, o in zip(parts, ours, strict=True)
        ]
    pulled = replay.pull(trace, node, parts if op.multiple else parts[0])
    totals: dict[int, Any] = {}
    for argument, contribution in zip(known.args, pulled, strict=True):
        if isinstance(argument, torch.Tensor) and contribution is not None:
            totals[id(argument)] = totals.get(id(argument), 0) + contribution
    for (key, leaf), g in zip(leaves.items(), theirs, strict=True):
        expected = torch.zeros_like(leaf) if g is None else g.to_dense() if g.is_sparse else g
        found = totals.get(key, np.zeros(numpy_of(leaf).shape))
        same(found, expected, f"gradient of an operand of shape {tuple(leaf.shape)}")


_ROUNDING = {torch.float16: 2e-3, torch.bfloat16: 1e-2}


def same(found: Any, expected: torch.Tensor, what: str) -> None:
    wanted = numpy_of(expected)
    assert found.shape == wanted.shape, f"{what}: shape {found.shape}, not {wanted.shape}"
    exact = wanted.dtype == np.float64 and found.dtype == np.float64
    tolerance = 1e-7 if exact else _ROUNDING.get(expected.dtype, 1e-4)
    np.testing.assert_allclose(
        found.astype(wanted.dtype, copy=False), wanted, tolerance, tolerance, err_msg=what
    )


def samples_of(
    names: set[str] | None, most: int, dtype: torch.dtype = torch.float64
) -> Iterator[Callable[[], Any]]:
    """Programs of one operation each: PyTorch's own samples."""
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db

    info: Any
    for info in op_db:
        if names is not None and info.name not in names:
            continue
        if dtype not in info.supported_dtypes("cpu"):
            continue
        wants = info.supports_autograd and dtype.is_floating_point
        # It searches the stack for the name of a unittest, which takes most of the time here.
        with mock.patch.object(common_utils, "extract_test_fn", lambda: None):
            samples = info.sample_inputs("cpu", dtype, requires_grad=wants)
        for k, sample in enumerate(samples):
            if k == most:
                break
            yield functools.partial(_run, info, sample)


def _run(info: Any, sample: Any) -> None:
    found = info.op(sample.input, *sample.args, **sample.kwargs)
    found = sample.output_process_fn_grad(found)
    outputs = [t for t in tensors_in(found) if t.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
