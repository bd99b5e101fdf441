"""Without x + block(x) the gradient has to go through every block."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "vanishing", "0.0"


def sick():
    """Twelve blocks without a residual connection."""
    gw.manual_seed(0)
    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)) for _ in range(12)
    )
    x = gw.randn(64, 32)
    for block in blocks:
        x = block(x)
    return blocks, x.square().mean(), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)) for _ in range(12)
    )
    x = gw.randn(64, 32)
    for block in blocks:
        x = x + block(x)
    return blocks, x.square().mean(), None
