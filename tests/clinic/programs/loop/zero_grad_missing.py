"""Gradients of all steps add up: zero_grad is missing.

symptom: diverges
finds: left over
healthy: optimizer.zero_grad()
at: optimizer.step()
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 6)
data = DataLoader(TensorDataset(x, x[:, :1] - x[:, 1:2]), batch_size=16)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    for features, target in data:
        pass  # sick
        loss = nn.functional.mse_loss(model(features), target)
        loss.backward()
        optimizer.step()
