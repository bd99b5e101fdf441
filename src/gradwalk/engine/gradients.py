"""Computing gradients: `backward` into `.grad`, and `grad` as a function."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.engine.allocator import keep_freed_memory
from gradwalk.engine.backward import walk
from gradwalk.engine.errors import AutogradError, made_at, name_of
from gradwalk.engine.hooks import AFTER, read_only, run_before
from gradwalk.engine.modes import beside, enable_grad, filled, no_grad, state
from gradwalk.graph.abstract import is_array, own_copy
from gradwalk.graph.fork_locks import GRADIENT, fork_safe, watch_forks
from gradwalk.graph.handles import ACCUMULATED
from gradwalk.graph.source import caller
from gradwalk.graph.versions import touch
from gradwalk.ops.core.dtypes import is_complex_dtype
from gradwalk.ops.elementwise.complex_numbers import turned
from gradwalk.ops.shape.reshaping import clone

# Makes a tensor of an array (and a node); tensor.py, which imports this module, sets it.
wrap: Any = None
# Called with every visit of a backward pass: the node, its gradient, and what it passes on.
# autograd/anomaly_mode.py sets it.
step_check: Callable[[Any, Any, Any], None] | None = None


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add d(tensors)/d(leaf) to the `.grad` of the leaves, or of `inputs` only.

    >>> import gradwalk as gw
    >>> x = gw.tensor(2.0, requires_grad=True)
    >>> gw.autograd.backward([x * 3, x**2])
    >>> x.grad
    tensor(7.)
    """
    outs, seeds = _outputs_and_seeds("backward", tensors, grad_tensors)
    roots = [_root(t, g, create_graph) for t, g in zip(outs, seeds, strict=True)]
    wanted: Any = None
    if inputs is not None:
        listed = [inputs] if hasattr(inputs, "_node") else list(inputs)
        if not listed:
            raise ValueError("backward(inputs=[]): name at least one tensor, or leave inputs out")
        wanted = {_source(t, "backward(inputs=...)"): [] for t in listed}
        for tensor in dict.fromkeys(listed):  # several may be outputs of one node; list each once
            wanted[tensor._node or tensor].append(tensor)
    if create_graph:
        warnings.warn(
            "backward(create_graph=True) makes each .grad and its tensor keep one another alive; "
            "use gradwalk.autograd.grad instead, or set .grad to None afterwards",
            UserWarning,
            stacklevel=3,
        )
    retain = create_graph if retain_graph is None else bool(retain_graph)

    def deliver_to_inputs(node: Any, g: Any) -> None:
        for tensor in wanted[node]:
            _arrive(tensor, g)

    _sweep(roots, _arrive if wanted is None else deliver_to_inputs, wanted, create_graph, retain)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """d(outputs)/d(inputs) as a tuple; no `.grad` changes, so `only_inputs` has no other value.

    >>> import gradwalk as gw
    >>> x = gw.tensor(2.0, requires_grad=True)
    >>> (slope,) = gw.autograd.grad(x**3, x, create_graph=True)
    >>> gw.autograd.grad(slope, x)
    (tensor(12.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("materialize_grads=True allows unused inputs: leave allow_unused out")
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is not supported. Fix: call backward()")
    outs, seeds = _outputs_and_seeds("grad", outputs, grad_outputs)
    ins = [inputs] if hasattr(inputs, "_node") else list(inputs)
    if not ins:
        raise ValueError("grad needs at least one input to differentiate with respect to")
    sources = [_source(t, "grad") for t in ins]
    roots = [_root(t, g, create_graph) for t, g in zip(outs, seeds, strict=True)]
    arrived: dict[Any, Any] = {}
    retain = create_graph if retain_graph is None else bool(retain_graph)
    _sweep(roots, arrived.__setitem__, set(sources), create_graph, retain)
    results = []
    handed_out = {id(getattr(seed, "_array", seed)) for seed in seeds}
    for tensor, source in zip(ins, sources, strict=True):
        g = arrived.get(source)
        if isinstance(g, list):
            g = g[tensor._index]
        g = turned(g)
        if g is None and materialize_grads:
            g = filled(tensor.shape, tensor.dtype, 0, tensor._array)
            if create_graph:  # as in PyTorch: it can be differentiated, like the others
                g = wrap(g)
                g.requires_grad = True
        if g is None and not allow_unused:
            raise AutogradError(
                f"{name_of(tensor)} was not used to compute the output, so it has no gradient.\n"
                f"  made at:   {made_at(source)}\n"
                "Fix: pass allow_unused=True to get None for it, or look for a detach(), a "
                "no_grad() or a conversion to NumPy between the two."
            )
        results.append(g if g is None else _owned(g, handed_out))
    return tuple(results)


# The reference count of an array that only the walk holds, as `accumulate` sees it. It differs
# between versions of Python, so it is measured; 0 is safe: every gradient is copied.
_alone = 0
# Threads may add to the same leaf. NumPy lets other threads run while it adds large arrays.
_adding = fork_safe(threading.Lock(), GRADIENT)


def measure_references() -> None:
    """Count, in a real walk, the references to a gradient on delivery."""

    def note(tensor: Any, g: Any) -> None:
        global _alone
        _alone = sys.getrefcount(g)

    leaf = wrap(np.ones(1))
    leaf.requires_grad = True
    # One call deeper, as `accumulate` is.
    walk([((leaf * 2.0)._node, 0, np.ones(1))], lambda t, g: note(t, turned(g)), wrap)


def _arrive(tensor: Any, g: Any) -> None:
    """Add what arrives from a walk to `tensor.grad`."""
    if isinstance(g, list):
        g = g[tensor._index]
    if g is not None:  # else another output of the same node has one
        if tensor.hooks:
            _arrive_hooked(tensor, g)
        else:
            accumulate(tensor, turned(g))


def _arrive_hooked(tensor: Any, g: Any) -> None:
    g = run_before(tensor, g, wrap)
    if g is None:
        return
    accumulate(tensor, turned(g))
    for hook in list(tensor.hooks.get(ACCUMULATED, {}).values()):
        returned = hook(tensor)
        if returned is not None and returned is not tensor:  # an in-place method returns its tensor
            raise TypeError(
                f"a hook on {name_of(tensor)} after its gradient was added returns None: it sees "
                "the tensor. Fix: change tensor.grad inside the hook."
            )
    for hook in list(tensor.hooks.get(AFTER, {}).values()):
        hook((), (read_only(turned(g), wrap),))


def accumulate(tensor: Any, g: Any) -> None:
    """Add a gradient (array or tensor) to `tensor.grad`."""
    if g.shape != tensor._array.shape:
        raise AutogradError(
            f"a gradient of shape {tuple(g.shape)} arrived at {name_of(tensor)}: its shape was "
            f"changed after it was used.\n  made at:   {made_at(tensor)}\n"
            "Fix: assign to .data only between backward() and the next forward pass."
        )
    with _adding:
        if hasattr(g, "_node"):  # it has a graph of its own: never added in place
            tensor._grad = clone(g) if tensor._grad is None else tensor._grad + g
            return
        known = tensor._grad
        if known is None:
            alone = sys.getrefcount(g) <= _alone and g.base is None and g.flags.writeable
            tensor._grad = wrap(g if alone else own_copy(g))
        elif known.requires_grad or not known._array.flags.writeable:
            tensor._grad = wrap(known._array + g)
        else:
            known._array += g
            touch(known._array, *caller())


def _sweep(
    roots: list[tuple[Any, int, Any]],
    deliver: Callable[[Any, Any], None],
    wanted: Any,
    create_graph: bool,
    retain: bool,
) -> None:
    keep_freed_memory()
    watch_forks()
    mode = enable_grad if create_graph else no_grad
    watcher = state.here.watcher
    with mode(), np.errstate(all="ignore"):
        if watcher is None:
            walk(
                roots, deliver, wrap, wanted=wanted, graph=create_graph, retain=retain,
                on_step=step_check,
            )  # fmt: skip
            return

        def told(node: Any, g: Any) -> None:
            watcher.delivered(node, g)
            deliver(node, g)

        def visited(node: Any, g: Any, contributions: Any) -> None:
            for look in looks:
                look(node, g, contributions)

        looks = [look for look in (watcher.visited, step_check) if look is not None]
        watcher.sweeping(roots, create_graph)
        try:
            walk(
                roots, told, wrap, wanted=wanted, graph=create_graph, retain=retain,
                on_step=visited if looks else None,
            )  # fmt: skip
        finally:
            watcher.swept()


def _owned(g: Any, handed_out: set[int]) -> Any:
    """A gradient as a tensor that the user may write to: no other result shares its memory."""
    array = g._array if hasattr(g, "_node") else g if is_array(g) else np.asarray(g)
    alone = array.base is None and array.flags.writeable and id(array) not in handed_out
    if hasattr(g, "_node"):
        owned = g if alone else clone(g)
    else:
        owned = wrap(array if alone else array.copy())
    handed_out.add(id(owned._array))
    return owned


def _outputs_and_seeds(asked_by: str, outputs: Any, seeds: Any) -> tuple[list[Any], list[Any]]:
    """One or several outputs, and as many gradients of them (None: 1)."""
    outs = [outputs] if hasattr(outputs, "_node") else list(outputs)
    if seeds is None:
        return outs, [None] * len(outs)
    given = [seeds] if hasattr(seeds, "_node") else list(seeds)
    if len(given) != len(outs):
        raise ValueError(f"{asked_by}: {len(outs)} output(s) but {len(given)} gradient(s) of them")
    return outs, given


def _source(tensor: Any, asked_by: str) -> Any:
    if not tensor.requires_grad:
        raise AutogradError(
            f"{asked_by}: {name_of(tensor)} does not require a gradient.\n"
            f"  made at:   {made_at(tensor)}\n"
            "Fix: make it with requires_grad=True before it is used."
        )
    return tensor.grad_fn or tensor


def _root(tensor: Any, gradient: Any, create_graph: bool) -> tuple[Any, int, Any]:
    """(node, output, seed) to start from; the seed of a single number is 1."""
    node = tensor.grad_fn
    if not tensor.requires_grad and getattr(tensor._array, "depth", 0) > 0:
        raise AutogradError(
            f"backward from {name_of(tensor)} inside vmap: the tensors that the function captures "
            "need a gradient outside of it, and have none for each sample.\n"
            f"  made at:   {made_at(tensor)}\n"
            "Fix: gradwalk.grad inside the function, or backward on what vmap returns."
        )
    if not tensor.requires_grad:
        raise AutogradError(
            f"backward from {name_of(tensor)}, which does not depend on anything that requires a "
            "gradient.\n"
            f"  made at:   {made_at(tensor)}\n"
            "Fix: create a leaf with requires_grad=True, and check that no detach(), no_grad() or "
            "conversion to NumPy lies between it and this result."
        )
    if gradient is None:
        if tensor.numel() != 1:
            raise AutogradError(
                f"backward from {name_of(tensor)} without a `gradient`: only a single number has "
                "one derivative per input.\n"
                f"  made at:   {made_at(node or tensor)}\n"
                "Fix: reduce it first (.sum() or .mean()), or pass gradient= a tensor of shape "
                f"{tensor.shape}, the weights of its elements."
            )
        seed = filled(tensor.shape, tensor.dtype, 1, tensor._array)
    else:
        if hasattr(gradient, "_array") and gradient.dtype != tensor.dtype:
            gradient = gradient.to(tensor.dtype)
        if not hasattr(gradient, "_array"):
            seed = beside(np.asarray(gradient), tensor._array)
        elif gradient.device == tensor.device:
            seed = gradient._array
        else:
            raise AutogradError(
                f"a gradient on {gradient.device} for {name_of(tensor)} on {tensor.device}.\n"
                f"  made at:   {made_at(node or tensor)}\nFix: .to({str(tensor.device)!r})"
            )
        if seed.shape != tensor.shape:
            raise AutogradError(
                f"gradient of shape {seed.shape} for {name_of(tensor)}: it must have the shape of "
                f"what it belongs to.\n  made at:   {made_at(node or tensor)}\n"
                f"Fix: pass gradient= a tensor of shape {tensor.shape}."
            )
        if seed.dtype != tensor.dtype:
            seed = seed.astype(tensor.dtype)
    if is_complex_dtype(seed.dtype):
        if gradient is None:
            raise AutogradError(
                f"backward from {name_of(tensor)}, a complex number, without a `gradient`: only a "
                "real number has a direction in which it grows.\n"
                f"  made at:   {made_at(node or tensor)}\n"
                "Fix: make it real first (.abs(), .real), or pass gradient=."
            )
        return node or tensor, tensor._index, turned(gradient if create_graph else seed)
    if create_graph:
        same = gradient is not None and hasattr(gradient, "_array") and gradient._array is seed
        return node or tensor, tensor._index, gradient if same else wrap(seed)
    return node or tensor, tensor._index, seed
