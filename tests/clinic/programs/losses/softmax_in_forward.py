"""A classifier returns probabilities, and cross entropy applies softmax once more.

symptom: loss stuck
finds: probabilities
healthy: return self.out(h)
"""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 24)
        self.out = nn.Linear(24, 4)

    def forward(self, x):
        h = torch.tanh(self.hidden(x))
        return F.softmax(self.out(h), dim=1)  # sick


centers = torch.randn(4, 6) * 2
labels = torch.randint(0, 4, (64,))
features = centers[labels] + torch.randn(64, 6) * 0.3
loader = DataLoader(TensorDataset(features, labels), batch_size=16, shuffle=True)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
