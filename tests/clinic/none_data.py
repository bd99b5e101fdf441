""".data used where the tensor was meant."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "data", "detach"


def sick():
    """.data is a detached tensor."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        scale = w.data
        ((scale + 1) * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        scale = w
        ((scale + 1) * v).sum().backward()
    return w, trace
