"""A custom loss forgets the 2 and the number of elements in its backward.

symptom: diverges
finds: wrong backward
healthy: return g * 2 * difference / difference.numel(), None
"""

import torch
from torch import nn


class SquaredError(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, target):
        ctx.save_for_backward(output - target)
        return (output - target).pow(2).mean()

    @staticmethod
    def backward(ctx, g):
        (difference,) = ctx.saved_tensors
        return g * difference, None  # sick


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Linear(10, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(25, 3), torch.randn(25, 2)
for _ in range(6):
    loss = SquaredError.apply(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
