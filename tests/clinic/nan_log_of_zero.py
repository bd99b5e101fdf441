"""The logarithm of a probability that is exactly 0."""

import gradwalk as gw

KIND, OP, LAYER = "log", "log", ""


def sick():
    """relu gives exact zeros."""
    w = gw.tensor([[1.0, -2.0], [0.5, 1.0]], requires_grad=True)
    x = gw.tensor([[1.0, 0.0], [1.0, 2.0]])

    def step():
        p = (x @ w).relu()
        loss = -p.log().sum()
        loss.backward()

    return step


def healthy():
    """The same, but for one line."""
    w = gw.tensor([[1.0, -2.0], [0.5, 1.0]], requires_grad=True)
    x = gw.tensor([[1.0, 0.0], [1.0, 2.0]])

    def step():
        p = (x @ w).relu()
        loss = -(p + 1e-6).log().sum()
        loss.backward()

    return step
