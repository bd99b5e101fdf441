"""Gradients are clipped to a norm at which SGD does not move.

symptom: loss stuck
finds: clipping
healthy: nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(96, 8)
y = (x @ torch.randn(8, 3)).argmax(1)
for step in range(30):
    rows = torch.arange(32) + 32 * (step % 3)
    optimizer.zero_grad()
    F.cross_entropy(model(x[rows]), y[rows]).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-5)  # sick
    optimizer.step()
