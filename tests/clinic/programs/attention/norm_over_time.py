"""A layer norm written by hand takes its mean over time, so each position sees the later ones.

symptom: loss wrong
finds: future leaks
healthy: mean = x.mean(-1, keepdim=True)
"""

import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)  # sick
        return self.gain * (x - mean)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 16)
        self.norm = Norm(16)
        self.rnn = nn.LSTM(16, 16, batch_first=True)
        self.out = nn.Linear(16, 12)

    def forward(self, x):
        h, _ = self.rnn(self.norm(self.embed(x)))
        return self.out(h)


torch.manual_seed(0)
model, text = Model(), torch.randint(0, 12, (5, 10))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for _ in range(6):
    logits = model(text[:, :-1])
    loss = F.cross_entropy(logits.permute(0, 2, 1), text[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
