"""The model ends with a sigmoid, and the loss takes logits.

symptom: loss stuck
finds: probabilities
healthy: return self.score(torch.relu(self.first(x))).squeeze(1)
"""

import torch
from torch import nn


class Spam(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.first = nn.Linear(words, 16)
        self.score = nn.Linear(16, 1)

    def forward(self, x):
        return torch.sigmoid(self.score(torch.relu(self.first(x)))).squeeze(1)  # sick


def main():
    torch.manual_seed(0)
    counts = torch.rand(48, 12)
    is_spam = (counts[:, 0] > counts[:, 1]).float()
    model = Spam(12)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(12):
        loss = criterion(model(counts), is_spam)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
