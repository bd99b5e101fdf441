"""Time and batch change places before a reshape that meant to keep the batch.

symptom: loss stuck
finds: rows mix
healthy: flat = h.reshape(x.shape[0], -1)
"""

import torch
from torch import nn
from torch.nn import functional as F


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 6)
        self.head = nn.Linear(30, 4)

    def forward(self, x):
        h = torch.relu(self.embed(x))
        flat = h.transpose(0, 1).reshape(x.shape[0], -1)  # sick
        return self.head(flat)


torch.manual_seed(0)
net, x = Flat(), torch.randn(16, 5, 3)
y = x[:, :4, 0].argmax(1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for _ in range(10):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
