"""A clamp whose bounds no element is within."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "zero", "clamp", "clip"


def sick():
    """All elements are outside."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * 10
        bounded = h.clamp(0, 1)
        (bounded * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * 10
        bounded = h.clamp(0, 100)
        (bounded * v).sum().backward()
    return w, trace
