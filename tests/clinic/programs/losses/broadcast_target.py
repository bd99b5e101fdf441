"""Predictions of shape (N, 1) against targets of shape (N,).

symptom: loss stuck
finds: broadcast
healthy: loss = F.mse_loss(model(x).squeeze(1), y)
"""

import warnings

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
torch.manual_seed(0)
rooms = torch.randn(64, 5)
price = rooms @ torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0]) + 0.1 * torch.randn(64)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for x, y in DataLoader(TensorDataset(rooms, price), batch_size=16):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)  # sick
        loss.backward()
        optimizer.step()
