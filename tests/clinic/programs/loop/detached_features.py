"""A detach() left over from debugging: the encoder gets no gradient.

symptom: loss stuck
finds: unused, none, detached
healthy: code = encoder(x)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(8, 12), nn.Tanh())
classifier = nn.Linear(12, 3)
optimizer = torch.optim.Adam([*encoder.parameters(), *classifier.parameters()], lr=0.01)
x, y = torch.randn(40, 8), torch.randint(0, 3, (40,))
for _ in range(10):
    code = encoder(x).detach()  # sick
    loss = F.cross_entropy(classifier(code), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
