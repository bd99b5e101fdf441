"""Finite forward, infinite backward: the root of a distance that is 0."""

import gradwalk as gw

KIND, OP, LAYER = "infinite slope", "sqrt", ""
DIRECTION = "backward"


def sick():
    """The first pair of points coincides."""
    a = gw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    b = gw.tensor([[1.0, 2.0], [0.0, 0.0]])

    def step():
        squares = ((a - b) ** 2).sum(1)
        distance = squares.sqrt()
        distance.mean().backward()

    return step


def healthy():
    """The same, but for one line."""
    a = gw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    b = gw.tensor([[1.0, 2.0], [0.0, 0.0]])

    def step():
        squares = ((a - b) ** 2).sum(1)
        distance = (squares + 1e-12).sqrt()
        distance.mean().backward()

    return step
