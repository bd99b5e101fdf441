"""The indices of max(dim) where its values were meant."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "not differentiable", "max"


def sick():
    """indices are whole numbers."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        best = (w * 3).max(0).indices
        (best * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        best = (w * 3).max(0).values
        (best * v).sum().backward()
    return w, trace
