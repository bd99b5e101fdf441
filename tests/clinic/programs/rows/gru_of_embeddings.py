"""Embedded tokens (batch, time, width) go into a GRU that expects time first; sum of losses.

symptom: loss stuck
finds: rows mix
healthy: self.gru = nn.GRU(8, 8, batch_first=True)
at: out, _ = self.gru(self.embed(tokens))
"""

import torch
from torch import nn
from torch.nn import functional as F


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.gru = nn.GRU(8, 8)  # sick
        self.out = nn.Linear(8, 2)

    def forward(self, tokens):
        out, _ = self.gru(self.embed(tokens))
        return self.out(out.mean(1))


torch.manual_seed(0)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
tokens = torch.randint(1, 30, (20, 6))
label = (tokens[:, 0] > 15).long()
for rows in range(0, 20, 5):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens[rows : rows + 5]), label[rows : rows + 5])
    loss.backward()
    optimizer.step()
