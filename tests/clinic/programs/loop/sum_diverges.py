"""reduction="sum" with a learning rate that was meant for a mean.

symptom: diverges
finds: sum, update, explosion, exploding
healthy: criterion = nn.MSELoss(reduction="mean")
at: loss = criterion(model(x), y)
"""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(256, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
criterion = nn.MSELoss(reduction="sum")  # sick
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(20):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
