"""A variational autoencoder of rings: `Normal.rsample`, `Independent`, `kl_divergence`."""

import math

import gradwalk as torch
from gradwalk import nn
from gradwalk.distributions import Independent, Normal, kl_divergence

torch.manual_seed(0)
angle = 2 * math.pi * torch.rand(256)
rings = torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(256, 2)
encoder = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 4))
decoder = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
prior = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=5e-3)

for step in range(60):
    mean, spread = encoder(rings).chunk(2, dim=-1)
    posterior = Independent(Normal(mean, nn.functional.softplus(spread) + 1e-3), 1)
    code = posterior.rsample()
    likelihood = Independent(Normal(decoder(code), 0.3), 1).log_prob(rings)
    divergence = kl_divergence(posterior, prior)
    loss = (divergence - likelihood).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(f"step {step + 1}: loss {loss.item():.3f}, kl {divergence.mean().item():.3f}")
with torch.no_grad():
    print("radius of what it draws", decoder(prior.sample((500,))).norm(dim=1).mean().item())
