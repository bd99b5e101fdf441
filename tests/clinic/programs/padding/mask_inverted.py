"""The mask hides what counts and leaves padding; the batch is a multiple of the length.

symptom: loss wrong
finds: padding
healthy: weights = scores.masked_fill(padding[:, None, :], -1e9).softmax(-1)
"""

import torch
from torch import nn
from torch.nn import functional as F


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 16, padding_idx=0)
        self.projections, self.head = nn.Linear(16, 48), nn.Linear(16, 2)

    def forward(self, tokens):
        padding = tokens == 0
        q, k, v = self.projections(self.words(tokens)).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / 4
        weights = scores.masked_fill(~padding[:, None, :], -1e9).softmax(-1)  # sick
        return self.head((weights @ v)[:, 0])


torch.manual_seed(0)
tokens = torch.randint(1, 20, (32, 8))
tokens[torch.arange(8)[None] >= torch.randint(3, 9, (32, 1))] = 0
labels = (tokens[:, 1] > 10).long()
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(20):
    optimizer.zero_grad()
    F.cross_entropy(model(tokens), labels).backward()
    optimizer.step()
