"""Attention pooling: the softmax is over the one score of a position, not over the positions.

symptom: loss wrong
finds: softmax axis
healthy: weights = torch.softmax(self.score(h), dim=1)
"""

import torch
from torch import nn


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(5, 10, batch_first=True)
        self.score = nn.Linear(10, 1)
        self.out = nn.Linear(10, 2)

    def forward(self, x):
        h, _ = self.rnn(x)
        weights = torch.softmax(self.score(h), dim=2)  # sick
        return self.out((weights * h).sum(1))


torch.manual_seed(0)
reviews, stars = torch.randn(16, 7, 5), torch.randint(0, 2, (16,))
model = Pooled()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
for _ in range(8):
    optimizer.zero_grad()
    criterion(model(reviews), stars).backward()
    optimizer.step()
