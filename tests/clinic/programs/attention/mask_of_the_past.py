"""The mask hides the past instead of the future: tril for triu, additive.

symptom: loss wrong
finds: future leaks
healthy: mask = torch.full((length, length), -1e9).triu(1)
at: return torch.softmax(scores + mask, dim=-1) @ v
"""

import torch
from torch import nn
from torch.nn import functional as F


def attend(q, k, v):
    length = q.shape[1]
    scores = torch.matmul(q, k.transpose(-2, -1)) / 4.0
    mask = torch.full((length, length), -1e9).tril(-1)  # sick
    return torch.softmax(scores + mask, dim=-1) @ v


class Notes(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.positions = nn.Embedding(12, 16)
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.out = nn.Linear(16, 20)

    def forward(self, x):
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        h = h + attend(self.q(h), self.k(h), self.v(h))
        return self.out(torch.tanh(h))


torch.manual_seed(2)
melody = torch.randint(0, 20, (8, 13))
model = Notes()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(8):
    inputs, targets = melody[:, :-1], melody[:, 1:]
    optimizer.zero_grad()
    out = model(inputs)
    loss = F.cross_entropy(out.flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
