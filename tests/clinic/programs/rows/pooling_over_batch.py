"""The weights of an attention pooling are normalised over the rows of the batch.

symptom: loss stuck
finds: rows mix
healthy: weights = scores.softmax(1)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
encode, score, head = nn.Linear(4, 12), nn.Linear(12, 1), nn.Linear(12, 2)
everything = [*encode.parameters(), *score.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(everything, lr=0.01)
frames = torch.randn(18, 7, 4)
label = (frames[:, 0, 0] > 0).long()
for _ in range(8):
    h = torch.tanh(encode(frames))
    scores = score(h).squeeze(-1)
    weights = scores.softmax(0)  # sick
    pooled = (weights.unsqueeze(-1) * h).sum(1)
    loss = F.cross_entropy(head(pooled), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
