"""The features are centred in NumPy, so the encoder gets no gradient.

symptom: loss stuck
finds: unused
engine: torch
healthy: h = h - h.mean(0)
"""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
head = nn.Linear(16, 3)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(8):
    h = encoder(x)
    h = torch.from_numpy(h.detach().numpy() - h.detach().numpy().mean(0))  # sick
    loss = nn.functional.cross_entropy(head(h), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
