"""A computation inside no_grad() that should be learned."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "no_grad", "mul"


def sick():
    """Nothing is recorded in the block."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        with gw.no_grad():
            h = w * 2
        (h * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        with gw.enable_grad():
            h = w * 2
        (h * v).sum().backward()
    return w, trace
