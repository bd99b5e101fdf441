"""The weight decay takes a third of each weight at every step.

symptom: loss stuck
finds: weight decay
healthy: optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.01)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=30.0)  # sick
x = torch.randn(96, 8)
y = (x @ torch.randn(8, 3)).argmax(1)
for step in range(40):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
