"""The backward of a custom leaky ReLU has the wrong sign below 0.

symptom: loss stuck
finds: wrong backward
healthy: return torch.where(x > 0, g, 0.1 * g)
"""

import torch
from torch import nn


class Leaky(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0.1 * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, g, -0.1 * g)  # sick


torch.manual_seed(0)
layers = nn.ModuleList([nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 1)])
optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
x = torch.randn(30, 4)
y = x[:, :1] * x[:, 1:2]
for _ in range(6):
    h = x
    for layer in layers[:-1]:
        h = Leaky.apply(layer(h))
    loss = (layers[-1](h) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
