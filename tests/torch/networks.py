"""Typical networks, each with a variant in which one thing is wrong."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Two convolutions and a residual connection."""

    def __init__(self, channels, out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x):
        past = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += past
        return self.relu(out)


class ResNet(nn.Module):
    """Like torchvision's, but smaller."""

    def __init__(self, widths=(8, 16), classes=4):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Block(widths[0], widths[0]), Block(widths[0], widths[0]))
        self.layer2 = nn.Sequential(Block(widths[0], widths[1], 2), Block(widths[1], widths[1]))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(widths[1], classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Sentiment(nn.Module):
    """An LSTM over embedded words, classified by its last state."""

    def __init__(self, words=30, width=12, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, classes)

    def forward(self, words):
        _, (hidden, _) = self.lstm(self.embedding(words))
        return self.head(hidden[-1])


class TwoHeads(nn.Module):
    """An encoder, and a branch whose gradient may be cut off from it."""

    def __init__(self, detached):
        super().__init__()
        self.enc, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.detached = detached

    def forward(self, x):
        features = torch.tanh(self.enc(x))
        if self.detached:
            features = features.detach()
        return self.head(features)


class Recurrence(nn.Module):
    """The same matrix again and again."""

    def __init__(self, gain):
        super().__init__()
        self.cell = nn.Linear(16, 16)
        nn.init.orthogonal_(self.cell.weight, gain)
        nn.init.zeros_(self.cell.bias)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        for _ in range(30):
            x = self.cell(x)
        return self.head(x)


class Overwritten(nn.Module):
    """An in-place write, to a value that backward needs or to another."""

    def __init__(self, in_place):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.in_place = in_place

    def forward(self, x):
        gate = torch.sigmoid(self.first(x))
        gate = gate.mul_(2) if self.in_place else gate.mul(2)
        return self.last(gate)


def with_relu(bias):
    """A hidden layer whose units may all be off."""
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    nn.init.constant_(model[0].bias, bias)
    return model


class Gan:
    """Two networks and two optimizers; one step of each."""

    def __init__(self, lr=2e-3, by_hand=False):
        self.by_hand = by_hand
        self.generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.g_optimizer = torch.optim.Adam(self.generator.parameters(), lr, betas=(0.5, 0.999))
        self.d_optimizer = torch.optim.Adam(self.discriminator.parameters(), lr)

    def cheated(self, guess):
        """The generator's loss; written by hand it is −log of a probability that may be 0."""
        if self.by_hand:
            return -torch.log(torch.sigmoid(guess)).mean()
        return F.binary_cross_entropy_with_logits(guess, torch.ones_like(guess))

    def step(self, real, noise):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        self.d_optimizer.zero_grad()
        made = self.generator(noise)
        d_loss = F.binary_cross_entropy_with_logits(self.discriminator(real), ones)
        d_loss = d_loss + F.binary_cross_entropy_with_logits(
            self.discriminator(made.detach()), zeros
        )
        d_loss.backward()
        self.d_optimizer.step()
        self.g_optimizer.zero_grad()
        g_loss = self.cheated(self.discriminator(made))
        g_loss.backward()
        self.g_optimizer.step()
        return d_loss, g_loss


def rows(count=16, width=6, classes=3):
    """A batch of vectors with labels."""
    torch.manual_seed(1)
    return torch.randn(count, width), torch.randint(0, classes, (count,))


def images(count=6, classes=4):
    torch.manual_seed(1)
    return torch.randn(count, 3, 16, 16), torch.randint(0, classes, (count,))


def sentences(count=6, length=7, classes=3):
    torch.manual_seed(1)
    return torch.randint(0, 30, (count, length)), torch.randint(0, classes, (count,))
