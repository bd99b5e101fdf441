"""A stack of blocks is made by repeating one block.

symptom: loss wrong
finds: shared layer
healthy: blocks = [Residual(12), Residual(12), Residual(12), Residual(12)]
"""

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())

    def forward(self, x):
        return x + self.inner(x)


torch.manual_seed(0)
blocks = [Residual(12)] * 4  # sick
model = nn.Sequential(nn.Linear(4, 12), *blocks, nn.Linear(12, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
x = torch.randn(40, 4)
y = torch.sin(x[:, :1]) * x[:, 1:2]
for _ in range(8):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
