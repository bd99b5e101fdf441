"""Eight sigmoid layers in a row: the first gets no gradient to speak of.

symptom: loss stuck
finds: vanishing, saturated, initialisation
healthy: return torch.relu(x)
"""

import torch
from torch import nn
from torch.nn import functional as F


def activation(x):
    return torch.sigmoid(x)  # sick


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(8)])
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight)
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        for layer in self.layers:
            x = activation(layer(x))
        return self.out(x)


torch.manual_seed(0)
model = Deep()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(64, 16), torch.randint(0, 2, (64,))
for _ in range(6):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
