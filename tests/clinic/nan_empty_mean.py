"""The mean over a selection that is empty."""

import gradwalk as gw

KIND, OP, LAYER = "empty", "mean", ""
LINE = "chosen.mean().backward()"


def sick():
    """No element passes the filter."""
    w = gw.tensor([0.5, 1.0, 2.0], requires_grad=True)

    def step():
        limit = 5.0
        chosen = w[w > limit]
        chosen.mean().backward()

    return step


def healthy():
    """The same, but for one line."""
    w = gw.tensor([0.5, 1.0, 2.0], requires_grad=True)

    def step():
        limit = 0.7
        chosen = w[w > limit]
        chosen.mean().backward()

    return step
