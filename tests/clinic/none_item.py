"""A number taken out of the graph by item()."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "left the graph", "sum"
SUSPECT = "(v * size).sum().backward()"


def sick():
    """item() gives a Python number."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        total = (w * 2).sum()
        size = total.item()
        (v * size).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        total = (w * 2).sum()
        size = total
        (v * size).sum().backward()
    return w, trace
