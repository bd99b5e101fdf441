"""The weights of an encoder's attention are normalised over the queries.

symptom: loss stuck
finds: softmax axis
healthy: weights = torch.softmax(scores, dim=2)
"""

import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.classify = nn.Linear(width, 3)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 12**0.5
        weights = torch.softmax(scores, dim=1)  # sick
        return self.classify((weights @ self.v(x)).mean(1))


torch.manual_seed(0)
points = torch.randn(32, 6, 12)
kind = points.sum((1, 2)).gt(0).long()
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(8):
    optimizer.zero_grad()
    F.cross_entropy(model(points), kind).backward()
    optimizer.step()
