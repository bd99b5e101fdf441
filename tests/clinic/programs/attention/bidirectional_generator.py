"""A bidirectional LSTM is trained to predict the next value of a series.

symptom: loss wrong
finds: future leaks
healthy: self.rnn = nn.LSTM(1, 12, batch_first=True, num_layers=2)
at: states, _ = self.rnn(series)
"""

import torch
from torch import nn


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 6, batch_first=True, bidirectional=True)  # sick
        self.readout = nn.Linear(12, 1)

    def forward(self, series):
        states, _ = self.rnn(series)
        return self.readout(states)


def train(model, data, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.MSELoss()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = criterion(model(data[:, :-1]), data[:, 1:])
        loss.backward()
        optimizer.step()
    return loss


torch.manual_seed(0)
time = torch.linspace(0, 6, 20)
waves = torch.stack([torch.sin(time * (1 + 0.1 * k) + k) for k in range(8)])[:, :, None]
train(Forecast(), waves, 8)
