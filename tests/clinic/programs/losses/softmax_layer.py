"""The last layer of a Sequential is a Softmax, and the loss is CrossEntropyLoss.

symptom: loss stuck
finds: probabilities
healthy: nn.Linear(16, 3),
at: loss = criterion(net(signal), kind)
"""

import torch
from torch import nn

torch.manual_seed(1)
net = nn.Sequential(
    nn.Conv1d(1, 4, 3),
    nn.GELU(),
    nn.Flatten(),
    nn.Linear(32, 16),
    nn.GELU(),
    nn.Sequential(nn.Linear(16, 3), nn.Softmax(dim=-1)),  # sick
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
signal = torch.randn(32, 1, 10)
kind = (signal.mean((1, 2)) > 0).long() + (signal[:, 0, 0] > 0).long()
for step in range(15):
    optimizer.zero_grad()
    loss = criterion(net(signal), kind)
    loss.backward()
    optimizer.step()
