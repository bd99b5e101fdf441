"""A detach() between a layer and the loss."""

import gradwalk as gw
from gradwalk import nn
from gradwalk.inspect import record

KIND, LAYER = "unused", "body"


def sick():
    """The features are detached, so the body learns nothing."""
    gw.manual_seed(0)
    model = nn.ModuleDict({"body": nn.Linear(16, 32), "head": nn.Linear(32, 4)})
    x, y = gw.randn(64, 16), gw.randint(0, 4, (64,))
    with record() as trace:
        h = model["body"](x).detach().relu()
        nn.functional.cross_entropy(model["head"](h), y).backward()
    return model, trace, None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.ModuleDict({"body": nn.Linear(16, 32), "head": nn.Linear(32, 4)})
    x, y = gw.randn(64, 16), gw.randint(0, 4, (64,))
    with record() as trace:
        h = model["body"](x).relu()
        nn.functional.cross_entropy(model["head"](h), y).backward()
    return model, trace, None
