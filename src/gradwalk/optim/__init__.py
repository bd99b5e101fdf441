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
from gradwalk.optim import swa_utils as swa_utils
from gradwalk.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam, SparseAdam
from gradwalk.optim.adaptive import Adadelta, Adagrad, RMSprop, Rprop
from gradwalk.optim.factored import Adafactor
from gradwalk.optim.lbfgs import LBFGS
from gradwalk.optim.muon import Muon
from gradwalk.optim.optimizer import Optimizer
from gradwalk.optim.sgd import ASGD, SGD

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler",
    "swa_utils",
]  # fmt: skip
