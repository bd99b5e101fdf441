"""The whole forward of the encoder is inside no_grad.

symptom: loss stuck
finds: unused, none, no_grad, not held
healthy: with torch.enable_grad():
"""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 12)
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        with torch.no_grad():  # sick
            h = torch.tanh(self.encoder(x))
        return self.head(h)


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(30, 6), torch.randint(0, 2, (30,))
for _ in range(10):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
