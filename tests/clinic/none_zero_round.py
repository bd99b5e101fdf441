"""round() in the loss."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "zero", "flat", "round"


def sick():
    """A step is flat wherever it has a derivative."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * 1.7
        rounded = h.round()
        (rounded * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * 1.7
        rounded = h + (h.round() - h).detach()
        (rounded * v).sum().backward()
    return w, trace
