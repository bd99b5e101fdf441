"""Attention with a query that may not attend to any key."""

import math

import gradwalk as gw

KIND, OP, LAYER = "all −inf", "softmax", ""
LINE = "weights = scores.masked_fill(~mask, -math.inf).softmax(1)"
INDEX = (2, 0)


def sick():
    """The third row of the mask is all False."""
    scores = gw.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    values = gw.tensor([1.0, 2.0])
    mask = gw.tensor([[True, True], [True, False], [False, False]])

    def step():
        weights = scores.masked_fill(~mask, -math.inf).softmax(1)
        (weights @ values).sum().backward()

    return step


def healthy():
    """The same, but for one line."""
    scores = gw.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    values = gw.tensor([1.0, 2.0])
    mask = gw.tensor([[True, True], [True, False], [False, True]])

    def step():
        weights = scores.masked_fill(~mask, -math.inf).softmax(1)
        (weights @ values).sum().backward()

    return step
