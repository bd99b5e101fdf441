"""A running maximum that has seen nothing yet."""

import math

import gradwalk as gw

KIND, OP, LAYER = "inf − inf", "sub", ""
LINE = "kept = total * (largest - new).exp()"


def sick():
    """It starts at −inf, and so does the first block of scores."""
    w = gw.tensor([0.5, 1.0], requires_grad=True)
    first = gw.tensor([-math.inf, -math.inf])

    def step():
        total = (w * 2).sum()
        largest = gw.tensor(-math.inf)
        new = gw.maximum(largest, first.amax())
        kept = total * (largest - new).exp()
        kept.backward()

    return step


def healthy():
    """The same, but for one line."""
    w = gw.tensor([0.5, 1.0], requires_grad=True)
    first = gw.tensor([-math.inf, -math.inf])

    def step():
        total = (w * 2).sum()
        largest = gw.tensor(-1e9)
        new = gw.maximum(largest, first.amax())
        kept = total * (largest - new).exp()
        kept.backward()

    return step
