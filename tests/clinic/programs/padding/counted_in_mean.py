"""Sentences of different lengths are averaged over their padding too.

symptom: loss stuck
finds: padding
healthy: pooled = (h * keep).sum(1) / keep.sum(1)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
PAD = 0


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 10)
        self.hidden, self.out = nn.Linear(10, 10), nn.Linear(10, 2)

    def forward(self, ids):
        keep = (ids != PAD).float()[:, :, None]
        h = torch.tanh(self.hidden(self.embed(ids)))
        pooled = h.mean(1)  # sick
        return self.out(pooled)


ids = torch.randint(1, 40, (12, 9))
for row in range(12):
    ids[row, 3 + row % 6 :] = PAD
label = torch.randint(0, 2, (12,))
model = BagOfWords()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for _ in range(8):
    optimizer.zero_grad()
    F.cross_entropy(model(ids), label).backward()
    optimizer.step()
