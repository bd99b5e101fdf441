"""A recurrence whose matrix makes everything larger."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "exploding", "carry"


def sick():
    """The state is multiplied by a matrix of norm 1.5, forty times."""
    gw.manual_seed(0)
    model = nn.Module()
    model.carry = nn.Parameter(nn.init.orthogonal_(gw.empty(16, 16)))
    x = gw.randn(40, 8, 16)
    h = gw.zeros(8, 16)
    for t in range(40):
        h = 1.5 * (h @ model.carry) + x[t]
    return model, h.square().mean(), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Module()
    model.carry = nn.Parameter(nn.init.orthogonal_(gw.empty(16, 16)))
    x = gw.randn(40, 8, 16)
    h = gw.zeros(8, 16)
    for t in range(40):
        h = 0.99 * (h @ model.carry) + x[t]
    return model, h.square().mean(), None
