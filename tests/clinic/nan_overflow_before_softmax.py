"""A product overflows; the loss that turns its inf into NaN is not to blame."""

import gradwalk as gw
from gradwalk.nn import functional as F

KIND, OP, LAYER = "overflow", "matmul", ""
BECAME = "log_softmax"


def sick():
    """1e20 × 1e20 is more than float32 can hold."""
    w = (gw.arange(12.0).reshape(4, 3) * 1e19).requires_grad_()
    x, y = gw.ones(2, 4), gw.tensor([0, 1])

    def step():
        h = x * 1e20
        logits = h @ w
        F.nll_loss(F.log_softmax(logits, -1), y).backward()

    return step


def healthy():
    """The same, but for one line."""
    w = (gw.arange(12.0).reshape(4, 3) * 1e19).requires_grad_()
    x, y = gw.ones(2, 4), gw.tensor([0, 1])

    def step():
        h = x * 1e20
        logits = (h / 1e20) @ (w / 1e20)
        F.nll_loss(F.log_softmax(logits, -1), y).backward()

    return step
