"""A convolutional sequence model is padded on both sides.

symptom: loss wrong
finds: future leaks
healthy: h = torch.relu(self.conv(F.pad(h, (1, 0))[:, :, :-1]))
"""

import torch
from torch import nn
from torch.nn import functional as F


class WaveNetLike(nn.Module):
    def __init__(self, levels=10):
        super().__init__()
        self.embed = nn.Embedding(levels, 8)
        self.conv = nn.Conv1d(8, 16, kernel_size=3, padding=1)
        self.out = nn.Conv1d(16, levels, kernel_size=1)

    def forward(self, x):
        h = self.embed(x).transpose(1, 2)
        h = torch.relu(self.conv(h))  # sick
        return self.out(h)


torch.manual_seed(0)
audio = torch.randint(0, 10, (6, 17))
net = WaveNetLike()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(8):
    loss = F.cross_entropy(net(audio[:, :-1]), audio[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
