"""`autograd.grad` with PyTorch's `is_grads_batched`: the gradients of many cotangents at once."""

from __future__ import annotations

from typing import Any

from gradwalk.engine import gradients


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """d(outputs)/d(inputs) as a tuple; no `.grad` changes, so `only_inputs` has no other value.

    With `is_grads_batched`, `grad_outputs` have one dimension more, the first, and so has what is
    returned: one backward pass for all of them.

    >>> import gradwalk as gw
    >>> x = gw.tensor(2.0, requires_grad=True)
    >>> (slope,) = gw.autograd.grad(x**3, x, create_graph=True)
    >>> gw.autograd.grad(slope, x)
    (tensor(12.),)
    >>> y = gw.stack([x, x**2])
    >>> gw.autograd.grad(y, x, gw.eye(2), is_grads_batched=True)
    (tensor([1., 4.]),)
    """
    options = (retain_graph, create_graph, only_inputs, allow_unused, materialize_grads)
    if not is_grads_batched:
        return gradients.grad(outputs, inputs, grad_outputs, *options)
    seeds = (grad_outputs,) if hasattr(grad_outputs, "_node") else tuple(grad_outputs or ())
    if not any(hasattr(seed, "_node") for seed in seeds):
        raise ValueError("grad: is_grads_batched=True needs grad_outputs with a first dimension")
    from gradwalk.batching.vmap import vmap  # most programs never need it

    unused: list[bool] = []

    def each(*seeds: Any) -> tuple[Any, ...]:
        found = gradients.grad(outputs, inputs, seeds, *options)
        unused[:] = [g is None for g in found]
        return tuple(seeds[0] if g is None else g for g in found)

    batched = vmap(each, tuple(None if seed is None else 0 for seed in seeds))(*seeds)
    return tuple(None if none else g for none, g in zip(unused, batched, strict=True))
