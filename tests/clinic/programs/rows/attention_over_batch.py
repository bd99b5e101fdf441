"""nn.MultiheadAttention without batch_first attends over the rows of the batch.

symptom: loss wrong
finds: rows mix
healthy: self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
at: mixed, _ = self.attend(x, x, x)
"""

import torch
from torch import nn


class Sets(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2)  # sick
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        mixed, _ = self.attend(x, x, x)
        return self.out(self.norm(x + mixed).mean(1)).squeeze(1)


torch.manual_seed(0)
model = Sets()
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
sets = torch.randn(20, 6, 8)
largest = sets.amax((1, 2))
for _ in range(8):
    loss = (model(sets) - largest).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
