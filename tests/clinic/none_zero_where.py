"""A condition that never holds."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "zero", "where", "where"


def sick():
    """The branch with the parameter is never chosen."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * v
        chosen = gw.where(v > 100, h, v)
        chosen.sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * v
        chosen = gw.where(v > 1, h, v)
        chosen.sum().backward()
    return w, trace
