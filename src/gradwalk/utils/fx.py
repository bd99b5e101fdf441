"""PyTorch's `fx`, for programs that mark functions for it or ask for its classes: there is no
symbolic tracing here.

`gradwalk.compile` traces a function, and `gradwalk.torch.import_graph` imports PyTorch's graphs.

>>> import gradwalk as gw
>>> @gw.fx.wrap
... def double(x):
...     return 2 * x
>>> double(gw.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

from typing import Any

from gradwalk.nn.graph_module import GraphModule

__all__ = ["Graph", "GraphModule", "Node", "Tracer", "wrap"]


class _Untraced:
    """Base of the classes that only symbolic tracing makes objects of."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError(
            f"fx.{type(self).__name__}: nothing is traced symbolically here. Fix: gradwalk.compile "
            "traces functions, gradwalk.torch.import_graph imports PyTorch's graphs."
        )


Graph, Node, Tracer = (type(name, (_Untraced,), {}) for name in ("Graph", "Node", "Tracer"))


def wrap(fn_or_name: Any) -> Any:
    """The function, or its name, itself: nothing is traced that could look into it."""
    return fn_or_name
