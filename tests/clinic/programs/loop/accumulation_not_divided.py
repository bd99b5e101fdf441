"""Gradients of eight parts are added, and the loss of each part is not divided.

symptom: diverges
finds: accumulation
healthy: (loss / PARTS).backward()
"""

import torch
from torch import nn

torch.manual_seed(0)
PARTS = 8
x = torch.randn(64, 5)
y = x @ torch.randn(5, 1)
model = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), nn.Linear(20, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    for part in range(PARTS):
        rows = slice(part * 8, part * 8 + 8)
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        loss.backward()  # sick
    optimizer.step()
