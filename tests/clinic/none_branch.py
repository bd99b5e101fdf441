"""A parameter that only decides an if."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "left the graph", "greater"


def sick():
    """The loss does not depend on how much larger it is."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        score = (w * 2).sum()
        gate = 1.0 if score > 1 else 0.0
        (v * gate).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        score = (w * 2).sum()
        gate = (score - 1).sigmoid()
        (v * gate).sum().backward()
    return w, trace
