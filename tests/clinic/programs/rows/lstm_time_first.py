"""The data are (batch, time, features), and the LSTM expects time first.

symptom: loss stuck
finds: rows mix
healthy: self.lstm = nn.LSTM(4, 12, batch_first=True)
at: states, _ = self.lstm(x)
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Walks(Dataset):
    def __init__(self, count):
        self.steps = torch.randn(count, 9, 4)
        self.up = (self.steps[:, :, 0].sum(1) > 0).long()

    def __len__(self):
        return len(self.up)

    def __getitem__(self, index):
        return self.steps[index], self.up[index]


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 12)  # sick
        self.out = nn.Linear(12, 2)

    def forward(self, x):
        states, _ = self.lstm(x)
        return self.out(states[:, -1])


torch.manual_seed(0)
model = Judge()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
for _ in range(2):
    for x, y in DataLoader(Walks(48), batch_size=12, shuffle=True):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
