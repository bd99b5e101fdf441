"""A custom linear layer multiplies the gradient by the weight instead of its transpose.

symptom: diverges
finds: wrong backward
healthy: return g @ weight.T, x.T @ g
"""

import torch
from torch import nn


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, x.T @ g  # sick


class Square(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) * 0.4)

    def forward(self, x):
        return torch.tanh(Product.apply(x, self.weight))


torch.manual_seed(0)
model = nn.Sequential(Square(8), Square(8), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
x, y = torch.randn(20, 8), torch.randint(0, 2, (20,))
for _ in range(6):
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
