"""The output layer should share the embedding's weights; it gets a copy.

symptom: loss wrong
finds: untied weights
healthy: self.head.weight = self.embed.weight
"""

import torch
from torch import nn
from torch.nn import functional as F


class Tied(nn.Module):
    def __init__(self, words=18, width=10):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = nn.Parameter(self.embed.weight.detach().clone())  # sick

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


torch.manual_seed(0)
model, text = Tied(), torch.randint(0, 18, (6, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(8):
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
