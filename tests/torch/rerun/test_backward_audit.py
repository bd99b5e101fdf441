"""A wrong backward that the program wrote by hand is found by `watch`, which does not stop."""

import warnings
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gradwalk.torch import watch
from gradwalk.torch.watch.step_report import StepWarning


class WrongSwish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * (s + s * (1 - s))


class RightSwish(WrongSwish):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * (s + x * s * (1 - s))


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -g


def train(function, steps=6, is_watched=True):
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 12), nn.Linear(12, 3)

        def forward(self, x):
            return self.last(function.apply(self.first(x)))

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    with watch(model, optimizer) if is_watched else nullcontext() as watched:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    return watched, [p.detach().clone() for p in model.parameters()]


def test_a_wrong_backward_is_warned_of_once_and_training_goes_on():
    with pytest.warns(StepWarning, match="WrongSwish") as told:
        watched, _ = train(WrongSwish)
    assert len(told) == 1 and watched.steps == 6
    (finding,) = watched.backwards.found
    assert finding.line.function == "backward"
    assert finding.line.file == __file__


@pytest.mark.parametrize("function", [RightSwish, Reversed])
def test_a_right_one_and_one_that_differs_on_purpose_get_silence(function):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watched, _ = train(function)
    assert not watched.backwards.found


def test_the_audit_leaves_no_mark():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, one = train(WrongSwish)
        _, other = train(WrongSwish, is_watched=False)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
