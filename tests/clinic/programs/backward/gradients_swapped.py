"""A custom gate returns the gradients of its two inputs in the wrong order.

symptom: loss stuck
finds: wrong backward
healthy: return g * gate, g * value
"""

import torch
from torch import nn
from torch.nn import functional as F


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, gate):
        ctx.save_for_backward(value, gate)
        return value * gate

    @staticmethod
    def backward(ctx, g):
        value, gate = ctx.saved_tensors
        return g * value, g * gate  # sick


class GatedUnit(nn.Module):
    def __init__(self):
        super().__init__()
        self.both = nn.Linear(6, 24)
        self.out = nn.Linear(12, 4)

    def forward(self, x):
        value, gate = self.both(x).chunk(2, dim=-1)
        return self.out(Gate.apply(torch.tanh(value), torch.sigmoid(gate)))


torch.manual_seed(0)
model = GatedUnit()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
x, y = torch.randn(30, 6), torch.randint(0, 4, (30,))
for _ in range(6):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
