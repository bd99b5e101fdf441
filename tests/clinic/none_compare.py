"""A comparison used as if it were a smooth gate."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "not differentiable", "greater"


def sick():
    """True or False has no slope."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * 2
        gate = h > 3
        (gate * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * 2
        gate = (h - 3).sigmoid()
        (gate * v).sum().backward()
    return w, trace
