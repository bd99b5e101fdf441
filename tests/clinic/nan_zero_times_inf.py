"""A mask of zeros multiplied onto infinite scores."""

import math

import gradwalk as gw

KIND, OP, LAYER = "0 × inf", "mul", ""


def sick():
    """0 × −inf is NaN."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    bias = gw.tensor([0.0, -math.inf])
    keep = gw.tensor([1.0, 0.0])

    def step():
        scores = w + bias
        kept = scores * keep
        kept.sum().backward()

    return step


def healthy():
    """The same, but for one line."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    bias = gw.tensor([0.0, -math.inf])
    keep = gw.tensor([1.0, 0.0])

    def step():
        scores = w + bias
        kept = gw.where(keep > 0, scores, 0.0)
        kept.sum().backward()

    return step
