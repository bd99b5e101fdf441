"""A recurrent network, one op for the whole sequence, that amplifies at every step."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "exploding", "rnn"


def sick():
    """The state is multiplied by 1.3, sixty times."""
    gw.manual_seed(0)
    model = nn.ModuleDict({"rnn": nn.RNN(8, 16, nonlinearity="relu"), "head": nn.Linear(16, 3)})
    nn.init.eye_(model["rnn"].weight_hh_l0).data.mul_(1.3)
    x, y = gw.randn(60, 24, 8), gw.randint(0, 3, (24,))
    out, _ = model["rnn"](x)
    return model, nn.functional.cross_entropy(model["head"](out[-1]), y), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.ModuleDict({"rnn": nn.RNN(8, 16, nonlinearity="relu"), "head": nn.Linear(16, 3)})
    nn.init.eye_(model["rnn"].weight_hh_l0).data.mul_(0.98)
    x, y = gw.randn(60, 24, 8), gw.randint(0, 3, (24,))
    out, _ = model["rnn"](x)
    return model, nn.functional.cross_entropy(model["head"](out[-1]), y), None
