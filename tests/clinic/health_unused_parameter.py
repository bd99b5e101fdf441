"""A parameter that the loss does not depend on."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "unused", "second"


def sick():
    """The second head exists, but the loss does not use it."""
    gw.manual_seed(0)
    model = nn.ModuleDict({"body": nn.Linear(16, 32), "head": nn.Linear(32, 4)})
    model["second"] = nn.Linear(32, 4)
    h = model["body"](gw.randn(64, 16)).relu()
    loss = nn.functional.cross_entropy(model["head"](h), gw.randint(0, 4, (64,)))
    return model, loss, None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.ModuleDict({"body": nn.Linear(16, 32), "head": nn.Linear(32, 4)})
    model["second"] = nn.Dropout(0.1)
    h = model["body"](gw.randn(64, 16)).relu()
    loss = nn.functional.cross_entropy(model["head"](h), gw.randint(0, 4, (64,)))
    return model, loss, None
