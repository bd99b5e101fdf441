"""A binary classifier with one output and a softmax: it always says 1.

symptom: loss stuck
finds: softmax axis
healthy: return torch.sigmoid(self.head(torch.tanh(self.body(x))))[:, 0]
"""

import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(9, 9), nn.Linear(9, 1)

    def forward(self, x):
        return torch.softmax(self.head(torch.tanh(self.body(x))), dim=-1)[:, 0]  # sick


torch.manual_seed(0)
detector = Detector()
optimizer = torch.optim.Adam(detector.parameters(), lr=0.01)
loss_function = nn.BCELoss()
sensor = torch.randn(32, 9)
alarm = (sensor.sum(1) > 0).float()
for step in range(10):
    optimizer.zero_grad()
    loss_function(detector(sensor), alarm).backward()
    optimizer.step()
