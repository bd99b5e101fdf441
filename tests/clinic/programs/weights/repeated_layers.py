"""`[layer] * 3` is one layer three times.

symptom: loss wrong
finds: shared layer
healthy: self.hidden = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])
"""

import torch
from torch import nn
from torch.nn import functional as F


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 16)
        self.hidden = nn.ModuleList([nn.Linear(16, 16)] * 3)  # sick
        self.last = nn.Linear(16, 2)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.last(x)


torch.manual_seed(0)
model = Deep()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(32, 5)
y = (x.prod(1) > 0).long()
for _ in range(8):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
