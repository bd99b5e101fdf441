"""A codebook behind a straight-through estimator, without a term of its own in the loss."""

import gradwalk as gw
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "straight-through", "detach"
LINE = "passed = z + (q - z).detach()"


def sick():
    """The estimator gives the gradient to z alone, as it should."""
    book = gw.tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True)
    z = gw.tensor([[0.1, 0.8]], requires_grad=True)
    with record() as trace:
        q = book[gw.tensor([0])]
        passed = z + (q - z).detach()
        own = 0.0
        (passed.square().sum() + own).backward()
    return book, trace


def healthy():
    """The same, but for one line."""
    book = gw.tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True)
    z = gw.tensor([[0.1, 0.8]], requires_grad=True)
    with record() as trace:
        q = book[gw.tensor([0])]
        passed = z + (q - z).detach()
        own = (q - z.detach()).square().sum()
        (passed.square().sum() + own).backward()
    return book, trace
