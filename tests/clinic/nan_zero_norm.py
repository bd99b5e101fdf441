"""A row of zeros divided by its norm."""

import gradwalk as gw

KIND, OP, LAYER = "0 / 0", "div", ""


def sick():
    """The second row is zero, and so is its norm."""
    x = gw.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, 1.0]])
    w = gw.tensor([1.0, 2.0], requires_grad=True)

    def step():
        length = x.norm(dim=1, keepdim=True)
        unit = x / length
        (unit @ w).sum().backward()

    return step


def healthy():
    """The same, but for one line."""
    x = gw.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, 1.0]])
    w = gw.tensor([1.0, 2.0], requires_grad=True)

    def step():
        length = x.norm(dim=1, keepdim=True)
        unit = x / length.clamp(min=1e-6)
        (unit @ w).sum().backward()

    return step
