"""scaled_dot_product_attention without is_causal=True, with heads.

symptom: loss wrong
finds: future leaks
healthy: mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
VOCABULARY, WIDTH, HEADS = 17, 16, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def split(self, x):
        rows, length, _ = x.shape
        return x.reshape(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        mixed = F.scaled_dot_product_attention(q, k, v)  # sick
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


embedding, attention = nn.Embedding(VOCABULARY, WIDTH), Attention()
head = nn.Linear(WIDTH, VOCABULARY)
parts = nn.ModuleList([embedding, attention, head])
optimizer = torch.optim.Adam(parts.parameters(), lr=1e-3)
corpus = torch.randint(0, VOCABULARY, (400,))


def batch(rows=5, length=8):
    starts = torch.randint(0, 380, (rows,)).tolist()
    x = torch.stack([corpus[s : s + length] for s in starts])
    y = torch.stack([corpus[s + 1 : s + length + 1] for s in starts])
    return x, y


for _ in range(8):
    x, y = batch()
    h = embedding(x)
    logits = head(h + attention(h))
    loss = F.cross_entropy(logits.transpose(1, 2), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
