"""A cast to integers on the way."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "integer", "cast"


def sick():
    """Whole numbers have no slope."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * 2.5
        counted = h.long()
        (counted * v).sum().backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        h = w * 2.5
        counted = h.double()
        (counted * v).sum().backward()
    return w, trace
