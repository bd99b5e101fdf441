"""The last position of a padded batch is taken for the last word of each row.

symptom: loss stuck
finds: padding
healthy: last = states[torch.arange(len(ids)), lengths - 1]
"""

import torch
from torch import nn
from torch.nn import functional as F


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.rnn = nn.LSTM(8, 10, batch_first=True)
        self.out = nn.Linear(10, 2)

    def forward(self, ids, lengths):
        states, _ = self.rnn(self.embed(ids))
        last = states[:, -1]  # sick
        return self.out(last)


torch.manual_seed(0)
lengths = torch.tensor([9, 4, 6, 3, 7, 5, 8, 2])
ids = torch.randint(1, 20, (8, 9))
ids = ids * (torch.arange(9)[None, :] < lengths[:, None]).long()
labels = torch.randint(0, 2, (8,))
reader = Reader()
optimizer = torch.optim.Adam(reader.parameters(), lr=0.01)
for _ in range(8):
    loss = F.cross_entropy(reader(ids, lengths), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
