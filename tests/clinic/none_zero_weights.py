"""A layer multiplied by weights that are all zero."""

import gradwalk as gw
from gradwalk import nn
from gradwalk.inspect import record

VERDICT, KIND, OP, LAYER = "zero", "zero factor", "linear", "2"
LINE = "model(x).sum().backward()"


def sick():
    """Zero weights let no gradient through to the layer before."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    nn.init.zeros_(model[2].weight)
    x = gw.randn(8, 3)
    with record() as trace:
        model(x).sum().backward()
    return model[0].weight, trace


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    nn.init.xavier_uniform_(model[2].weight)
    x = gw.randn(8, 3)
    with record() as trace:
        model(x).sum().backward()
    return model[0].weight, trace
