"""A GAN of blobs: transposed convolutions, spectral and weight norm, `view` of a convolution."""

import gradwalk as torch
from gradwalk import nn
from gradwalk.nn.utils.parametrizations import spectral_norm, weight_norm

torch.manual_seed(0)


def initialize(m):
    if "Conv" in m.__class__.__name__ and not hasattr(m, "parametrizations"):
        nn.init.normal_(m.weight.data, 0.0, 0.05)
    elif m.__class__.__name__.find("BatchNorm") != -1:
        nn.init.constant_(m.bias.data, 0)


generator = nn.Sequential(
    nn.ConvTranspose2d(4, 16, 4, 1, 0, bias=False),
    nn.BatchNorm2d(16),
    nn.ReLU(True),
    weight_norm(nn.ConvTranspose2d(16, 1, 4, 2, 1)),
    nn.Tanh(),
)
critic = nn.Sequential(
    spectral_norm(nn.Conv2d(1, 8, 4, 2, 1)),
    nn.LeakyReLU(0.2, inplace=True),
    spectral_norm(nn.Conv2d(8, 1, 4, 1, 0)),
)
generator.apply(initialize)
critic.apply(initialize)
real = torch.exp(-torch.linspace(-2, 2, 8).square())
real = torch.outer(real, real).expand(16, 1, 8, 8) * 2 - 1
to_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
to_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for step in range(8):
    fake = generator(torch.randn(16, 4, 1, 1))
    critic.zero_grad()
    loss_d = criterion(critic(real).view(-1), torch.ones(16))
    loss_d = loss_d + criterion(critic(fake.detach()).view(-1), torch.zeros(16))
    loss_d.backward()
    to_critic.step()
    generator.zero_grad()
    loss_g = criterion(critic(fake).view(-1), torch.ones(16))
    loss_g.backward()
    to_generator.step()
    if step % 4 == 3:
        print(f"step {step + 1}: critic {loss_d.item():.3f}, generator {loss_g.item():.3f}")
print(
    "largest singular value",
    torch.linalg.svdvals(critic[0].weight.flatten(1)).max().round(decimals=2).item(),
)
