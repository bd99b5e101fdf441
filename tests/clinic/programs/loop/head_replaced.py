"""A new head for fine-tuning is made after the optimizer: nothing trains it.

symptom: loss stuck
finds: not held
healthy: pass
at: model[2] = nn.Linear(16, 5)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model[2] = nn.Linear(16, 5)  # sick
x, y = torch.randn(40, 6), torch.randint(0, 5, (40,))
for _ in range(10):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
