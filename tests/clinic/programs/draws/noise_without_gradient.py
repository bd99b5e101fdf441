"""A stochastic layer adds its noise inside no_grad.

symptom: loss stuck
finds: cut draw
healthy: with torch.enable_grad():
"""

import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(8, 24)
        self.mean, self.spread = nn.Linear(24, 4), nn.Linear(24, 4)
        self.head = nn.Linear(6, 3)

    def forward(self, x, side):
        h = F.relu(self.inputs(x))
        mean, spread = self.mean(h), F.softplus(self.spread(h))
        with torch.no_grad():  # sick
            noise = torch.randn_like(mean)
            code = mean + spread * noise
        return self.head(torch.cat([code, side], dim=1)), mean, spread


torch.manual_seed(0)
model = Bottleneck()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, side, y = torch.randn(40, 8), torch.randn(40, 2), torch.randint(0, 3, (40,))
for _ in range(20):
    optimizer.zero_grad()
    logits, mean, spread = model(x, side)
    rate = (mean**2 + spread**2 - 1 - 2 * spread.log()).sum(1).mean() / 2
    (F.cross_entropy(logits, y) + 0.01 * rate).backward()
    optimizer.step()
