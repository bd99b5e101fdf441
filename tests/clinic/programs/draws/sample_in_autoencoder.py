"""A variational autoencoder draws with sample(), so reconstruction never trains the encoder.

symptom: loss stuck
finds: cut draw
healthy: z = Normal(mean, scale).rsample()
"""

import torch
from torch import nn
from torch.distributions import Normal


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 16), nn.Tanh())
        self.mean, self.log_scale = nn.Linear(16, 3), nn.Linear(16, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 12))

    def forward(self, x):
        h = self.encoder(x)
        mean, scale = self.mean(h), self.log_scale(h).exp()
        z = Normal(mean, scale).sample()  # sick
        return self.decoder(z), mean, scale


torch.manual_seed(0)
model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(64, 3) @ torch.randn(3, 12)
for _ in range(20):
    optimizer.zero_grad()
    back, mean, scale = model(x)
    divergence = (mean**2 + scale**2 - 1 - 2 * scale.log()).sum(1) / 2
    loss = ((back - x) ** 2).sum(1).mean() + 0.1 * divergence.mean()
    loss.backward()
    optimizer.step()
