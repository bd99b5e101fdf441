"""A parameter whose result is computed and forgotten."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "unused", ""
LINE = "w = gw.tensor([1.0, 2.0], requires_grad=True)"
REASON = "mul"


def sick():
    """The product never reaches the loss."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        results = {"product": w * v, "double": v * 2}
        loss = results["double"].sum()
        loss.backward()
    return w, trace


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record() as trace:
        results = {"product": w * v, "double": v * 2}
        loss = results["product"].sum()
        loss.backward()
    return w, trace
