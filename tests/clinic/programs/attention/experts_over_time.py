"""The weights of the experts are normalised over the positions, not over the experts.

symptom: loss wrong
finds: softmax axis
healthy: weights = self.gate(x).softmax(-1)
"""

import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate, self.experts = nn.Linear(width, experts), nn.Linear(width, experts * width)

    def forward(self, x):
        weights = self.gate(x).softmax(1)  # sick
        offers = torch.relu(self.experts(x)).reshape(*x.shape[:2], -1, x.shape[2])
        return (weights.unsqueeze(-1) * offers).sum(2)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), Mixture(16, 4), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(24, 7, 6)
y = x[:, :, :3].argmax(-1)
for _ in range(8):
    loss = nn.functional.cross_entropy(model(x).reshape(-1, 3), y.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
