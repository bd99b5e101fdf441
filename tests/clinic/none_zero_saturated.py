"""A tanh driven to where its derivative is exactly 0."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "zero", "saturated", "tanh"
LINE = "h = (w * scale).tanh()"


def sick():
    """tanh(100) is 1 in float32, and flat."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    scale = 100.0
    with record() as trace:
        h = (w * scale).tanh()
        (h * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    scale = 0.1
    with record() as trace:
        h = (w * scale).tanh()
        (h * v).sum().backward()
    return w, trace
