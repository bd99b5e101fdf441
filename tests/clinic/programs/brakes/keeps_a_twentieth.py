"""Dropout is given the share to keep.

symptom: loss stuck
finds: dropout
healthy: self.drop = nn.Dropout(0.05)
"""

import torch
from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(8, 32)
        self.drop = nn.Dropout(0.95)  # sick
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.drop(F.relu(self.inputs(x))))


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(96, 8)
y = (x @ torch.randn(8, 3)).argmax(1)
for step in range(40):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
