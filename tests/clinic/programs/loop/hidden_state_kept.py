"""The hidden state of a recurrent network is carried into the next step with its graph.

symptom: crashes
finds: error
healthy: hidden = state.detach()
at: loss.backward()
"""

import torch
from torch import nn

torch.manual_seed(0)
rnn, readout = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*rnn.parameters(), *readout.parameters()], lr=0.01)
stream = torch.randn(4, 30, 3)
hidden = torch.zeros(1, 4, 8)
for start in range(0, 30, 6):
    chunk = stream[:, start : start + 6]
    out, state = rnn(chunk, hidden)
    hidden = state  # sick
    loss = nn.functional.mse_loss(readout(out), chunk[:, :, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
