"""The first factor of a warmup is 0 and never grows: integer division.

symptom: loss stuck
finds: rate
healthy: scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1, (s + 1) / 5))
at: scheduler.step()
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 10), nn.Tanh(), nn.Linear(10, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1, (s + 1) // 500))  # sick
x, y = torch.randn(32, 4), torch.randint(0, 2, (32,))
for _ in range(20):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    scheduler.step()
