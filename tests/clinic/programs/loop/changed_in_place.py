"""A value that backward needs is changed in place.

symptom: crashes
finds: error
healthy: gate = gate + 0.1
"""

import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)

    def forward(self, x):
        gate = torch.sigmoid(self.a(x))
        value = gate * self.b(x)
        gate += 0.1  # sick
        return value + gate


torch.manual_seed(0)
cell = Cell()
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
x = torch.randn(8, 5)
for _ in range(5):
    loss = (cell(cell(x)) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
