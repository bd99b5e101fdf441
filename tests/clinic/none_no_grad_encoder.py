"""An encoder called inside no_grad(): the block is the cut, not a line of the encoder."""

import gradwalk as gw
from gradwalk import nn
from gradwalk.inspect import record

VERDICT, KIND, OP = "none", "no_grad", "linear"
REASON = "first at"


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 4)

    def forward(self, x):
        return self.inner(x).tanh()


def sick():
    """The features are computed inside the block."""
    gw.manual_seed(0)
    encoder, head, x = Encoder(), nn.Linear(4, 1), gw.randn(8, 3)
    with record() as trace:
        with gw.no_grad():
            features = encoder(x)
        head(features).sum().backward()
    return encoder.inner.weight, trace


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    encoder, head, x = Encoder(), nn.Linear(4, 1), gw.randn(8, 3)
    with record() as trace:
        with gw.enable_grad():
            features = encoder(x)
        head(features).sum().backward()
    return encoder.inner.weight, trace
