"""A parameter that is added and subtracted again."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "zero", "cancelled", ""


def sick():
    """x − x does not depend on x."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        difference = w - w
        (difference * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        difference = w - w.detach()
        (difference * v).sum().backward()
    return w, trace
