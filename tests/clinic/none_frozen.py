"""A parameter that does not require a gradient."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "requires_grad", ""


def sick():
    """requires_grad was forgotten."""
    w = gw.tensor([1.0, 2.0])
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        (w * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        (w * v).sum().backward()
    return w, trace
