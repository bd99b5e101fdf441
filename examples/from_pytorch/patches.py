"""Images as patches and back: Unfold, Fold, MaxPool with MaxUnpool, LPPool, 3-d pools."""

import gradwalk as torch
from gradwalk import nn
from gradwalk.nn import functional as F

torch.manual_seed(0)
image = torch.rand(2, 3, 8, 8)
patches = nn.Unfold(kernel_size=4, stride=2)(image)
overlap = F.fold(F.unfold(torch.ones_like(image), 4, stride=2), (8, 8), 4, stride=2)
back = nn.Fold((8, 8), kernel_size=4, stride=2)(patches) / overlap
print("patches", tuple(patches.shape), "lossless", torch.allclose(back, image))


class Autoencoder(nn.Module):
    """The decoder puts each value back where the encoder's maximum was."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Conv2d(3, 6, 3, padding=1)
        self.pool = nn.MaxPool2d(2, return_indices=True)
        self.unpool = nn.MaxUnpool2d(2)
        self.decode = nn.Conv2d(6, 3, 3, padding="same", padding_mode="reflect")

    def forward(self, x):
        small, places = self.pool(F.elu(self.encode(x)))
        return self.decode(self.unpool(small, places))


model = Autoencoder()
optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
for _ in range(20):
    loss = F.smooth_l1_loss(model(image), image)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")

film = torch.rand(1, 2, 4, 6, 6, requires_grad=True)
pooled = F.max_pool3d(film, 2) + nn.AdaptiveAvgPool3d((2, 3, 3))(film)
pooled = pooled.mean() + nn.LPPool2d(2, 3)(film[:, 0]).mean()
pooled.backward()
print(f"pooled {pooled.item():.4f}, gradient {film.grad.norm().item():.4f}")
print("shuffled", tuple(nn.PixelShuffle(2)(torch.rand(1, 4, 3, 3)).shape))
up = F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False)
print(f"enlarged {up.std().item():.4f}")
