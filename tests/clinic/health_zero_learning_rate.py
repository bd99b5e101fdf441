"""A schedule that ends too early leaves a learning rate of 0."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "update", "0"


def sick():
    """No step moves anything."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = gw.optim.SGD(model.parameters(), lr=0.0)
    x = gw.randn(64, 16)
    loss = nn.functional.cross_entropy(model(x), gw.randint(0, 4, (64,)))
    return model, loss, optimizer


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    x = gw.randn(64, 16)
    loss = nn.functional.cross_entropy(model(x), gw.randint(0, 4, (64,)))
    return model, loss, optimizer
