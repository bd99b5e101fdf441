"""A new tensor made of a computed one."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "left the graph", "mul"
SUSPECT = "h = gw.tensor(doubled)"


def sick():
    """tensor(x) copies the numbers and nothing else."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        doubled = w * 2
        h = gw.tensor(doubled)
        (h * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        doubled = w * 2
        h = gw.as_tensor(doubled)
        (h * v).sum().backward()
    return w, trace
