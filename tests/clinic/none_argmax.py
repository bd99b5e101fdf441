"""The place of the largest score in place of its value."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "not differentiable", "argmax"


def sick():
    """An index does not change by a little."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        scores = w * 3
        best = scores.argmax()
        (best * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        scores = w * 3
        best = scores.amax()
        (best * v).sum().backward()
    return w, trace
