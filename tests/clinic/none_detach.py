"""A detach() between a parameter and the loss."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "detach", "detach"


def sick():
    """The hidden values are cut off."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = (w * 2).tanh()
        features = h.detach()
        (features * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = (w * 2).tanh()
        features = h.clone()
        (features * v).sum().backward()
    return w, trace
