"""A typo in gamma: the learning rate grows tenfold with every epoch.

symptom: diverges
finds: rate
healthy: scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.9)
at: scheduler.step()
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=10)  # sick
x, y = torch.randn(32, 6), torch.randn(32, 2)
for epoch in range(15):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
