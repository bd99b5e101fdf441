"""Weights that an earlier step left as NaN."""

import gradwalk as gw
from gradwalk import nn

KIND, OP, LAYER = "weights", "", "0"
NAME = "0.weight"
LINE = "model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))"


def sick():
    """The step before divided by zero."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    x = gw.randn(8, 3)
    loss = model(x).square().mean()
    (loss / (loss - loss.detach())).backward()
    optimizer.step()

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()

    return step


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    x = gw.randn(8, 3)
    loss = model(x).square().mean()
    (loss / (loss + loss.detach())).backward()
    optimizer.step()

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()

    return step
