"""The logarithm of a chance that is 0.

symptom: crashes
finds: NaN, Inf, domain, log, nan
healthy: loss = -(target * torch.log(chance + 1e-6)).sum(1).mean()
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(20, 5)
target = torch.eye(4)[torch.arange(20) % 4]
for _ in range(6):
    score = torch.relu(model(x))
    chance = score / (score.sum(1, keepdim=True) + 1e-6)
    loss = -(target * torch.log(chance)).sum(1).mean()  # sick
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
