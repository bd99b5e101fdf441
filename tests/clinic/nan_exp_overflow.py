"""softmax written by hand, without subtracting the largest logit."""

import gradwalk as gw

KIND, OP, LAYER = "overflow", "exp", ""
BECAME = "div"


def sick():
    """exp(200) is more than float32 can hold."""
    w = gw.tensor([[100.0, 0.0], [0.0, 1.0]], requires_grad=True)
    x = gw.tensor([[2.0, 1.0]])

    def step():
        logits = x @ w
        e = logits.exp()
        p = e / e.sum(1, keepdim=True)
        p[:, 0].sum().backward()

    return step


def healthy():
    """The same, but for one line."""
    w = gw.tensor([[100.0, 0.0], [0.0, 1.0]], requires_grad=True)
    x = gw.tensor([[2.0, 1.0]])

    def step():
        logits = x @ w
        e = (logits - logits.amax(1, keepdim=True)).exp()
        p = e / e.sum(1, keepdim=True)
        p[:, 0].sum().backward()

    return step
