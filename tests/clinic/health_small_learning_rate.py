"""A step that moves nothing."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "update", "0"


def sick():
    """A learning rate of 1e-8."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = gw.optim.Adam(model.parameters(), lr=1e-8)
    x = gw.randn(64, 16)
    loss = nn.functional.cross_entropy(model(x), gw.randint(0, 4, (64,)))
    return model, loss, optimizer


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = gw.optim.Adam(model.parameters(), lr=1e-3)
    x = gw.randn(64, 16)
    loss = nn.functional.cross_entropy(model(x), gw.randint(0, 4, (64,)))
    return model, loss, optimizer
