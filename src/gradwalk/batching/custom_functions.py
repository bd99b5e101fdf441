"""A custom Function on all samples, as one that the transforms around the vmap differentiate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwalk.batching.vmap import vmap
from gradwalk.engine.function import Context, Function
from gradwalk.engine.tree import leaves


def on_all_samples(
    function: type[Function], args: Sequence[Any], dims: Sequence[int | None], randomness: str
) -> tuple[Any, Any]:
    """The containers that `function` returns, and all tensors in them with the samples in front.

    Its forward and its backward each run inside a vmap of their own. What forward keeps is kept
    of all samples: arguments and results as themselves, so that they stay tied to their graph.
    """
    context = Context(tuple(bool(getattr(a, "requires_grad", False)) for a in args))
    kept: list[tuple[str, int]] = []  # where each saved tensor comes from
    results: list[Any] = []

    def forward_of_one(*own: Any) -> Any:
        result = function._forward(context, own, {})
        outputs = leaves(result)
        fresh: list[Any] = []
        results[:], kept[:] = [result], []
        for tensor in context._to_save:
            source = next((i for i, a in enumerate(own) if a is tensor), None)
            made = next((i for i, a in enumerate(outputs) if a is tensor), None)
            if tensor is None:
                kept.append(("nothing", 0))
            elif source is not None:
                kept.append(("argument", source))
            elif made is not None:
                kept.append(("result", made))
            else:
                kept.append(("fresh", len(fresh)))
                fresh.append(tensor)
        return tuple(outputs), tuple(fresh)

    class OnAllSamples(Function):
        generate_vmap_rule = True  # it is made of operations on tensors

        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            outputs, fresh = vmap(forward_of_one, tuple(dims), 0, randomness)(*given)
            found = {"argument": given, "result": outputs, "fresh": fresh, "nothing": (None,)}
            ctx.save_for_backward(*[found[where][number] for where, number in kept])
            return outputs

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            saved = [(t, _dim_of(where, dims)) for t, where in zip(ctx.saved_tensors, kept)]
            mapped = [(t, d) for t, d in saved if t is not None]
            arrived = [g for g in gradients if g is not None]
            places: list[int] = []

            def backward_of_one(of_one: Any, own: Any) -> Any:
                here, coming = iter(of_one), iter(own)
                restored = tuple(None if t is None else next(here) for t, _ in saved)
                context._restore = lambda: restored
                try:
                    each = [None if g is None else next(coming) for g in gradients]
                    pulled = function._pull()(context, *each)
                finally:
                    context._restore = None
                listed = pulled if isinstance(pulled, (tuple, list)) else (pulled,)
                places[:] = [i for i, g in enumerate(listed) if g is not None]
                return tuple(listed[i] for i in places)

            tensors = tuple(t for t, _ in mapped)
            in_dims = (tuple(d for _, d in mapped), (0,) * len(arrived))
            pulled = vmap(backward_of_one, in_dims, 0, randomness)(tensors, tuple(arrived))
            listed: list[Any] = [None] * len(args)
            for place, gradient in zip(places, pulled, strict=True):
                if getattr(args[place], "requires_grad", False):
                    shared = dims[place] is None  # each sample has a part of its gradient
                    listed[place] = gradient.sum(0) if shared else gradient
            return tuple(listed)

    OnAllSamples.__name__ = function.__name__
    outputs = OnAllSamples.apply(*args)
    return results[0], outputs


def _dim_of(where: tuple[str, int], dims: Sequence[int | None]) -> int | None:
    kind, number = where
    return dims[number] if kind == "argument" else 0
