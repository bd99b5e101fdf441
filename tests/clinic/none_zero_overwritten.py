"""A result that is overwritten before it is used."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "zero", "overwritten", "setitem"


def sick():
    """h[:] replaces every element."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * 2
        h[:] = v
        h.sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * 2
        h[:1] = v[:1]
        h.sum().backward()
    return w, trace
