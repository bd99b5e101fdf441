"""A norm by hand divides by the size of the whole batch, not by that of each vector.

symptom: loss wrong
finds: rows mix
healthy: size = x.pow(2).mean(-1, keepdim=True)
"""

import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        size = x.pow(2).mean()  # sick
        return self.gain * x / (size + 1e-6).sqrt()


class Mixer(nn.Module):
    def __init__(self, tokens, width, classes):
        super().__init__()
        self.embed = nn.Linear(7, width)
        self.norms = nn.ModuleList(Scaled(width) for _ in range(2))
        self.tokens = nn.Linear(tokens, tokens)
        self.channels = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU())
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        h = self.embed(x)
        h = h + self.tokens(self.norms[0](h).transpose(1, 2)).transpose(1, 2)
        return self.head(self.channels(self.norms[1](h)).mean(1))


torch.manual_seed(0)
model = Mixer(5, 12, 3)
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.003)
for _ in range(10):
    x = torch.randn(16, 5, 7)
    y = x.mean(1)[:, :3].argmax(1)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
