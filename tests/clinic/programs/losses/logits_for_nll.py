"""The network returns logits, and nll_loss wants log-probabilities: the loss falls without bound.

symptom: loss wrong
finds: logits
healthy: loss = criterion(net(image).log_softmax(dim=1), digit)
"""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5))
criterion = nn.NLLLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for batch in range(10):
    image = torch.randn(12, 1, 8, 8)
    digit = torch.randint(0, 5, (12,))
    optimizer.zero_grad()
    loss = criterion(net(image), digit)  # sick
    loss.backward()
    optimizer.step()
