"""A parameter whose name was bound to a result."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "not a leaf", "sub"


def sick():
    """w is no leaf any more after the update."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        w = w - 0.1 * v
        (w * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        w.data -= 0.1 * v.data
        (w * v).sum().backward()
    return w, trace
