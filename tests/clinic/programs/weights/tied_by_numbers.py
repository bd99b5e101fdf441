"""Tying copies the numbers once, in the script, instead of sharing the parameter.

symptom: loss wrong
finds: untied weights
healthy: decoder.weight = table.weight
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
table = nn.Embedding(14, 8)
mix = nn.Linear(8, 8)
decoder = nn.Linear(8, 14, bias=False)
with torch.no_grad():
    decoder.weight.copy_(table.weight)  # sick
model = nn.Sequential(table, mix, nn.Tanh(), decoder)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
words = torch.randint(0, 14, (40,))
for _ in range(8):
    loss = F.cross_entropy(model(words[:-1]), words[1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
