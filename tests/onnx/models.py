"""Small networks in the shape of torchvision's, in evaluation mode with lively statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradwalk as gw
from gradwalk import nn
from gradwalk.nn import functional as F


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or channels != out:
            shortcut = nn.Conv2d(channels, out, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(out))

    def forward(self, x: gw.Tensor) -> gw.Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 24, 2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(24, 10),
    )  # fmt: skip


class SqueezeExcitation(nn.Module):
    """MobileNetV3's channel weights."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x: gw.Tensor) -> gw.Tensor:
        scale = F.hardsigmoid(self.fc2(F.relu(self.fc1(F.adaptive_avg_pool2d(x, 1)))))
        return x * scale


class Inverted(nn.Module):
    """MobileNet's inverted residual."""

    def __init__(self, channels: int, wide: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish(),
            nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False), nn.BatchNorm2d(wide),
            nn.ReLU6(), SqueezeExcitation(wide), nn.Conv2d(wide, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: gw.Tensor) -> gw.Tensor:
        return x + self.block(x)


def mobilenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
        Inverted(8, 16), Inverted(8, 24), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(8, 10),
    )  # fmt: skip


class Branches(nn.Module):
    """Inception's parallel branches."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, 4, 1)
        self.three = nn.Sequential(nn.Conv2d(channels, 6, 1), nn.ReLU(), nn.Conv2d(6, 8, 3, 1, 1))
        self.tall = nn.Sequential(
            nn.Conv2d(channels, 4, (1, 5), padding=(0, 2)), nn.Conv2d(4, 4, (5, 1), padding=(2, 0))
        )
        self.pool = nn.Conv2d(channels, 4, 1)

    def forward(self, x: gw.Tensor) -> gw.Tensor:
        pooled = self.pool(F.avg_pool2d(x, 3, 1, 1))
        return gw.cat([self.one(x), self.three(x), self.tall(x), pooled], 1).relu()


def inception() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), nn.LocalResponseNorm(5),
        Branches(8), nn.MaxPool2d(2), Branches(20), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(),
        nn.Linear(80, 10),
    )  # fmt: skip


class ViT(nn.Module):
    """Patches, a class token, positions, and an encoder before the head."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 8, 8)
        self.token = nn.Parameter(gw.randn(1, 1, 16))
        self.position = nn.Parameter(gw.randn(1, 17, 16) * 0.1)
        layer = nn.TransformerEncoderLayer(
            16, 4, 32, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 10)

    def forward(self, x: gw.Tensor) -> gw.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)  # (batch, 16, 16)
        x = gw.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.encoder(x))[:, 0])


class ConvNeXtBlock(nn.Module):
    """A depthwise convolution, and two wide layers on the last dimension."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.wide, self.thin = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(gw.full((channels,), 0.5))

    def forward(self, x: gw.Tensor) -> gw.Tensor:
        out = self.norm(self.conv(x).permute(0, 2, 3, 1))
        out = self.scale * self.thin(F.gelu(self.wide(out)))
        return x + out.permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 12, 4, 4), nn.GroupNorm(1, 12), ConvNeXtBlock(12), nn.Conv2d(12, 16, 2, 2),
        ConvNeXtBlock(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(16),
        nn.Linear(16, 10),
    )  # fmt: skip


class UNet(nn.Module):
    """Down, up by a transposed convolution and by interpolation, and across."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 3, 2, 1)
        self.norm = nn.InstanceNorm2d(8, affine=True)
        self.up = nn.ConvTranspose2d(8, 6, 2, 2)
        self.last = nn.Conv2d(20, 2, 1)

    def forward(self, x: gw.Tensor) -> gw.Tensor:
        across = F.silu(self.down(x))
        deep = F.elu(self.norm(self.deep(across)))
        wide = F.interpolate(deep, scale_factor=2, mode="bilinear", align_corners=False)
        return gw.sigmoid(self.last(gw.cat([across, self.up(deep), wide], 1)))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "resnet": resnet,
    "mobilenet": mobilenet,
    "inception": inception,
    "vit": ViT,
    "convnext": convnext,
    "unet": UNet,
}


def network(name: str) -> tuple[nn.Module, gw.Tensor]:
    """A network with statistics of some data, and an input."""
    gw.manual_seed(0)
    model: Any = NETWORKS[name]()
    x = gw.randn(2, 3, 32, 32)
    with gw.no_grad():
        for _ in range(3):
            model(gw.randn(4, 3, 32, 32) * 2 + 1)
    return model.eval(), x
