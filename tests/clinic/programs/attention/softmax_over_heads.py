"""Attention with heads: softmax(dim=1) is over the heads, not over the keys.

symptom: loss wrong
finds: softmax axis
healthy: weights = self.drop(scores.softmax(-1))
"""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.qkv(x).reshape(rows, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        weights = self.drop(scores.softmax(1))  # sick
        return self.out((weights @ v).transpose(1, 2).reshape(rows, length, width))


torch.manual_seed(0)
model = nn.Sequential(Attention(16, 4), nn.LayerNorm(16), nn.Flatten(), nn.Linear(80, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
sets, totals = torch.randn(24, 5, 16), torch.randn(24, 1)
for _ in range(8):
    loss = nn.functional.mse_loss(model(sets), totals)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
