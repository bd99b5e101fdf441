"""Gradients are cleared between backward and step.

symptom: loss stuck
finds: erased
healthy: loss.backward()
at: optimizer.step()
"""

import torch
from torch import nn
from torch.nn import functional as F


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward(), optimizer.zero_grad()  # sick
    optimizer.step()
    return loss.item()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
losses = [train_step(model, optimizer, x, y) for _ in range(10)]
