"""A NaN that where() hides in the forward pass comes back in the backward pass."""

import gradwalk as gw

KIND, OP, LAYER = "masked", "log", ""
DIRECTION = "backward"
LINE = "gw.where(positive, safe.log(), 0.0).sum().backward()"


def sick():
    """The unselected branch has an infinite derivative."""
    x = gw.tensor([0.5, 0.0, 2.0], requires_grad=True)

    def step():
        positive = x > 0
        safe = x * 1.0
        gw.where(positive, safe.log(), 0.0).sum().backward()

    return step


def healthy():
    """The same, but for one line."""
    x = gw.tensor([0.5, 0.0, 2.0], requires_grad=True)

    def step():
        positive = x > 0
        safe = gw.where(positive, x, 1.0)
        gw.where(positive, safe.log(), 0.0).sum().backward()

    return step
