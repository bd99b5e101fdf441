"""The keys of padded positions get weight in attention.

symptom: loss wrong
finds: padding
healthy: weights = torch.softmax(scores.masked_fill(padding[:, None, :], float("-inf")), dim=-1)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 12)
        self.q, self.k, self.v = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12)
        self.out = nn.Linear(12, 3)

    def forward(self, ids):
        padding = ids == 0
        h = self.embed(ids)
        scores = self.q(h) @ self.k(h).transpose(1, 2) / 12**0.5
        weights = torch.softmax(scores, dim=-1)  # sick
        return self.out((weights @ self.v(h))[:, 0])


ids = torch.randint(1, 30, (10, 8))
for row, length in enumerate([8, 5, 6, 3, 7, 4, 8, 2, 5, 6]):
    ids[row, length:] = 0
label = torch.randint(0, 3, (10,))
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(8):
    optimizer.zero_grad()
    F.cross_entropy(model(ids), label).backward()
    optimizer.step()
