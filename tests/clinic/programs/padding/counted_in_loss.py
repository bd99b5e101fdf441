"""Padded targets are counted in the loss of a language model.

symptom: loss wrong
finds: padding
healthy: loss = F.cross_entropy(logits.transpose(1, 2), batch[:, 1:], ignore_index=0)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def collate(lines):
    longest = max(len(line) for line in lines)
    return torch.tensor([line + [0] * (longest - len(line)) for line in lines])


class Lines(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(25, 12)
        self.rnn = nn.LSTM(12, 12, batch_first=True)
        self.out = nn.Linear(12, 25)

    def forward(self, x):
        h, _ = self.rnn(self.words(x))
        return self.out(h)


lengths = [11, 5, 8, 6, 9, 4]
lines = [torch.randint(1, 25, (n,)).tolist() for n in lengths]
model = Lines()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(8):
    batch = collate(lines)
    logits = model(batch[:, :-1])
    loss = F.cross_entropy(logits.transpose(1, 2), batch[:, 1:])  # sick
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
