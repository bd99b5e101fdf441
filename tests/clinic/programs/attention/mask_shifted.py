"""The causal mask of a hand-written transformer is one diagonal too far.

symptom: loss wrong
finds: future leaks
healthy: hidden = torch.ones(length, length).triu(1).bool()
at: weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x):
        length = x.shape[1]
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5
        hidden = torch.ones(length, length).triu(2).bool()  # sick
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return x + self.project(weights @ v)


class Characters(nn.Module):
    def __init__(self, vocabulary, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(2)])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


model = Characters(13)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(8):
    text = torch.randint(0, 13, (6, 11))
    logits = model(text[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 13), text[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
