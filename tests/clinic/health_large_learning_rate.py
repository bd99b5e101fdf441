"""One step moves the weights further than they are large."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "update", "2"


def sick():
    """A learning rate of 50."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = gw.optim.SGD(model.parameters(), lr=50.0)
    x = gw.randn(64, 16)
    loss = nn.functional.cross_entropy(model(x), gw.randint(0, 4, (64,)))
    return model, loss, optimizer


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = gw.optim.SGD(model.parameters(), lr=0.05)
    x = gw.randn(64, 16)
    loss = nn.functional.cross_entropy(model(x), gw.randint(0, 4, (64,)))
    return model, loss, optimizer
