"""A learning rate so large that the parameters overflow."""

import gradwalk as gw
from gradwalk import nn

KIND, OP, LAYER = "update", "", "Linear"
DIRECTION = "update"
LINE = "optimizer.step()"
NAME = "weight"


def sick():
    """Loss and gradients are finite; the update is not."""
    gw.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = gw.optim.SGD(model.parameters(), lr=1e38)
    x = gw.ones(4, 3) * 100

    def step():
        (model(x) * 100).square().mean().backward()
        optimizer.step()

    return step


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = gw.optim.SGD(model.parameters(), lr=1e-9)
    x = gw.ones(4, 3) * 100

    def step():
        (model(x) * 100).square().mean().backward()
        optimizer.step()

    return step
