"""The squared error is written by hand, and the target has one axis more than the prediction.

symptom: loss stuck
finds: broadcast
healthy: return ((prediction - target[:, 0]) ** 2).mean()
"""

import torch
from torch import nn


def squared_error(prediction, target):
    return ((prediction - target) ** 2).mean()  # sick


torch.manual_seed(3)
features, target = torch.randn(40, 8), torch.randn(40, 1)
layers = nn.ModuleList([nn.Linear(8, 12), nn.Linear(12, 1)])
optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
for _ in range(12):
    hidden = torch.tanh(layers[0](features))
    loss = squared_error(layers[1](hidden).squeeze(-1), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
