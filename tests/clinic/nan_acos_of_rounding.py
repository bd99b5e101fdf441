"""A cosine that rounding takes just beyond 1."""

import gradwalk as gw

KIND, OP, LAYER = "domain", "acos", ""
REASON = "1.0000001"


def sick():
    """The last digit matters, and it is printed."""
    u = gw.tensor([0.5, 1.0000001], requires_grad=True)

    def step():
        angle = u.acos()
        angle.sum().backward()

    return step


def healthy():
    """The same, but for one line."""
    u = gw.tensor([0.5, 1.0000001], requires_grad=True)

    def step():
        angle = u.clamp(-0.999999, 0.999999).acos()
        angle.sum().backward()

    return step
