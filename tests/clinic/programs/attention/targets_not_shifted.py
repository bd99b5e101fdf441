"""The targets of a causal model are its inputs: it learns to copy.

symptom: loss wrong
finds: unshifted targets
healthy: loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
"""

import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    def __init__(self, words=15, width=12):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, tokens):
        return self.out(self.rnn(self.words(tokens))[0])


torch.manual_seed(0)
model = Decoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
sentences = torch.randint(0, 15, (8, 9))
for epoch in range(8):
    for tokens in sentences.split(4):
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())  # sick
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
