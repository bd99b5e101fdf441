"""Causal attention whose queries and keys are turned as complex numbers (rotary positions)."""

import gradwalk as torch
import gradwalk.nn.functional as F
from gradwalk import nn

torch.manual_seed(0)
TIME, HEADS, WIDTH = 12, 2, 16


def rotations(time, width):
    frequency = 1.0 / 100.0 ** (torch.arange(0, width, 2).float() / width)
    angle = torch.outer(torch.arange(time).float(), frequency)
    return torch.polar(torch.ones_like(angle), angle)


def turned(x, by):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * by).flatten(3)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.register_buffer("by", rotations(TIME, WIDTH // HEADS), persistent=False)

    def forward(self, x):
        batch, time, _ = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            turned(q, self.by), turned(k, self.by), v, is_causal=True
        )
        return self.out(y.transpose(1, 2).contiguous().view(batch, time, -1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, WIDTH)
        self.norm = nn.RMSNorm(WIDTH)
        self.attention = Attention()
        self.head = nn.Linear(WIDTH, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(x + self.attention(self.norm(x)))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
tokens = (torch.arange(TIME + 1) * torch.randint(1, 7, (8, 1))) % 7
for step in range(30):
    loss = F.cross_entropy(model(tokens[:, :-1]).reshape(-1, 7), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step + 1}: loss {loss.item():.3f}")
