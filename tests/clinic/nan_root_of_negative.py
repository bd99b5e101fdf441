"""A fractional power of a negative number."""

import gradwalk as gw

KIND, OP, LAYER = "power", "power", ""


def sick():
    """The second element is below zero."""
    w = gw.tensor([4.0, -1.0, 9.0], requires_grad=True)

    def step():
        scaled = w * 2
        root = scaled**0.5
        root.sum().backward()

    return step


def healthy():
    """The same, but for one line."""
    w = gw.tensor([4.0, -1.0, 9.0], requires_grad=True)

    def step():
        scaled = w * 2
        root = scaled.abs() ** 0.5
        root.sum().backward()

    return step
