"""Series of different lengths are filled up with zeros, and the squared error counts the zeros.

symptom: loss wrong
finds: padding
healthy: loss = ((predicted - wanted).pow(2) * real).sum() / real.sum()
"""

import torch
from torch import nn


class Smoother(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 8, batch_first=True)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


torch.manual_seed(0)
series = torch.randn(6, 10, 2)
wanted = series.sum(-1, keepdim=True)
real = torch.ones(6, 10, 1)
for row, length in enumerate([10, 4, 7, 5, 8, 6]):
    series[row, length:] = 0
    wanted[row, length:] = 0
    real[row, length:] = 0
model = Smoother()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    predicted = model(series)
    loss = (predicted - wanted).pow(2).mean()  # sick
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
