"""PyTorch's `fx`, for programs that mark functions for it: there is no symbolic tracing here.

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

__all__ = ["wrap"]


def wrap(fn_or_name: Any) -> Any:
    """The function, or its name, itself: nothing is traced that could look into it."""
    return fn_or_name
