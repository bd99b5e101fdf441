"""A normalisation by hand subtracts the mean over the batch, not over the features.

symptom: loss wrong
finds: rows mix
healthy: centred = x - x.mean(dim=-1, keepdim=True)
"""

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        centred = x - x.mean(dim=0, keepdim=True)  # sick
        return self.scale * centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 10), RMSNorm(10), nn.GELU(), nn.Linear(10, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
for _ in range(10):
    x = torch.randn(24, 4, 6)
    y = x.mean(1)[:, :3].argmax(1)
    loss = criterion(model(x).mean(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
