"""Layer normalisation of equal numbers, without its eps."""

import gradwalk as gw
from gradwalk import nn

KIND, OP, LAYER = "zero variance", "standardize_affine", "0"
LINE = "model(x).square().mean().backward()"


def sick():
    """The variance of equal numbers is 0."""
    gw.manual_seed(0)
    model = nn.Sequential(
        nn.LayerNorm(4, eps=0.0),
        nn.Linear(4, 1),
    )
    x = gw.ones(2, 4)

    def step():
        model(x).square().mean().backward()

    return step


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(
        nn.LayerNorm(4, eps=1e-5),
        nn.Linear(4, 1),
    )
    x = gw.ones(2, 4)

    def step():
        model(x).square().mean().backward()

    return step
