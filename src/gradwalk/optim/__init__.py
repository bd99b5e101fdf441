"""Optimizers and learning-rate schedules under PyTorch's names.

>>> import gradwalk as gw
>>> w = gw.tensor([4.0], requires_grad=True)
>>> optimizer = gw.optim.SGD([w], lr=0.25)
>>> for _ in range(10):
...     optimizer.zero_grad()
...     (w * w).sum().backward()
...     optimizer.step()
>>> w
tensor([0.0039], requires_grad=True)
"""

from gradwalk.optim import lr_scheduler as lr_scheduler
from gradwalk.optim.adam import Adam, AdamW, NAdam, RAdam
from gradwalk.optim.adaptive import Adadelta, Adagrad, RMSprop
from gradwalk.optim.lbfgs import LBFGS
from gradwalk.optim.optimizer import Optimizer
from gradwalk.optim.sgd import SGD

__all__ = [
    "Adadelta", "Adagrad", "Adam", "AdamW", "LBFGS", "NAdam", "Optimizer", "RAdam", "RMSprop",
    "SGD", "lr_scheduler",
]  # fmt: skip
