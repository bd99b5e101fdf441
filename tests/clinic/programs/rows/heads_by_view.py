"""Heads are split by a view of (heads, rows, ...) instead of a view and a transpose.

symptom: loss wrong
finds: rows mix
healthy: split = x.reshape(rows, length, 2, 4).permute(2, 0, 1, 3)
"""

import torch
from torch import nn
from torch.nn import functional as F


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(8, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        rows, length, _ = x.shape
        x = self.key(x)
        split = x.reshape(2, rows, length, 4)  # sick
        weights = torch.softmax(split @ split.transpose(-1, -2), dim=-1)
        joined = (weights @ split).permute(1, 2, 0, 3).reshape(rows, length, 8)
        return self.out(joined.mean(1))


torch.manual_seed(0)
model = Heads()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(12, 5, 8), torch.randint(0, 3, (12,))
for _ in range(8):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
