"""A forward in NumPy with a backward by hand that uses the output where it needs its square.

symptom: loss stuck
finds: wrong backward
healthy: return g * (1 - out * out)
"""

import numpy as np
import torch
from torch import nn


class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.tensor(np.tanh(x.detach().numpy()))
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, g):
        (out,) = ctx.saved_tensors
        return g * (1 - out)  # sick


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 12), nn.Linear(12, 1)

    def forward(self, x):
        return self.b(Tanh.apply(self.a(x)))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(16, 5)
for _ in range(6):
    loss = (model(x) - x[:, :1]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
