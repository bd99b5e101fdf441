"""The backward of a custom activation misses the factor x in one term.

symptom: loss stuck
finds: wrong backward
healthy: return g * (gate + x * gate * (1 - gate))
"""

import torch
from torch import nn
from torch.nn import functional as F


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(x)
        return g * (gate + gate * (1 - gate))  # sick


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)

    def forward(self, x):
        return self.b(Swish.apply(self.a(x)))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x, y = torch.randn(24, 6), torch.randint(0, 3, (24,))
for _ in range(6):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
