"""The standard deviation of a batch of one."""

import gradwalk as gw

KIND, OP, LAYER = "one element", "std", ""


def sick():
    """n − 1 is 0."""
    w = gw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    batch = gw.tensor([[1.0, -1.0]])

    def step():
        h = batch @ w
        spread = h.std(0)
        (h / (1 + spread)).sum().backward()

    return step


def healthy():
    """The same, but for one line."""
    w = gw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    batch = gw.tensor([[1.0, -1.0]])

    def step():
        h = batch @ w
        spread = h.std(0, correction=0)
        (h / (1 + spread)).sum().backward()

    return step
