"""Datasets without downloads: generated from a seed, bundled, or made from a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.data.dataset import Dataset, TensorDataset
from gradwalk.tensors.creation import as_tensor
from gradwalk.tensors.devices import device
from gradwalk.tensors.tensor import Tensor


def moons(n: int = 200, noise: float = 0.1, seed: int = 0) -> TensorDataset:
    """Two interleaved half circles: points (n, 2) in float32 and labels 0 or 1.

    >>> import gradwalk as gw
    >>> points, labels = gw.data.moons(100).tensors
    >>> points.shape, labels.sum()
    ((100, 2), tensor(50))
    """
    source = np.random.default_rng(seed)
    outer, inner = np.linspace(0, math.pi, n - n // 2), np.linspace(0, math.pi, n // 2)
    return _classes([_circle(outer), (1, 0.5) - _circle(inner)], noise, source)


def circles(n: int = 200, noise: float = 0.1, factor: float = 0.5, seed: int = 0) -> TensorDataset:
    """A circle (label 0) around a smaller one (label 1, `factor` times its radius).

    >>> import gradwalk as gw
    >>> gw.data.circles(10, noise=0).tensors[0][0]
    tensor([1., 0.])
    """
    source = np.random.default_rng(seed)
    parts = []
    for count, radius in ((n - n // 2, 1.0), (n // 2, factor)):
        angle = np.arange(count) * (2 * math.pi / max(count, 1))
        parts.append(radius * _circle(angle))
    return _classes(parts, noise, source)


def spirals(
    n: int = 300, classes: int = 3, noise: float = 0.1, turns: float = 0.75, seed: int = 0
) -> TensorDataset:
    """Spiral arms, one class each.

    >>> import gradwalk as gw
    >>> gw.data.spirals(300).tensors[1].max()
    tensor(2)
    """
    source = np.random.default_rng(seed)
    parts = []
    for i in range(classes):
        count = n // classes + (i < n % classes)
        radius = np.linspace(0, 1, count)
        angle = 2 * math.pi * (turns * radius + i / classes)
        angle = angle + noise * source.standard_normal(count)
        parts.append(radius[:, None] * _circle(angle))
    return _classes(parts, 0.0, source)


def digits(split: str = "all") -> TensorDataset:
    """1797 handwritten digits: images (n, 1, 8, 8) in float32 from 0 to 1, labels 0 to 9.

    `split` is "all", "train" or "test"; every fifth image is for testing. The images are the test
    part of E. Alpaydin and C. Kaynak's set in the UCI repository; `digits.txt` beside this file
    has the licence.

    >>> import gradwalk as gw
    >>> images, labels = gw.data.digits("train").tensors
    >>> images.shape, labels[:4]
    ((1437, 1, 8, 8), tensor([1, 2, 3, 4]))
    """
    with np.load(Path(__file__).with_name("digits.npz"), allow_pickle=False) as file:
        images, labels = file["images"], file["labels"]
    test = np.arange(len(labels)) % 5 == 0
    try:
        chosen = {"all": np.ones_like(test), "train": ~test, "test": test}[split]
    except KeyError:
        raise ValueError(f"split is 'all', 'train' or 'test', not {split!r}") from None
    scaled = images[chosen, None].astype(np.float32) / np.float32(16)
    return TensorDataset(as_tensor(scaled), as_tensor(labels[chosen].astype(np.int64)))


class Characters(Dataset):
    """Windows of a text: a sample is (characters, the characters shifted by one).

    >>> import gradwalk as gw
    >>> text = gw.data.characters("hello world", length=4)
    >>> x, y = text[0]
    >>> text.decode(x), text.decode(y)
    ('hell', 'ello')
    >>> text.vocabulary
    ' dehlorw'
    """

    def __init__(self, text: str, length: int = 64, vocabulary: str | None = None) -> None:
        if length < 1 or len(text) <= length:
            raise ValueError(
                f"a text of {len(text)} characters has no window of {length} followed by one more"
            )
        self.vocabulary = "".join(sorted(set(text))) if vocabulary is None else vocabulary
        self._numbers = {character: i for i, character in enumerate(self.vocabulary)}
        self.length = length
        with device("cpu"):  # where windows are cut out
            self.codes = self.encode(text)

    def encode(self, text: str) -> Tensor:
        """Characters as int64 numbers."""
        try:
            numbers = [self._numbers[character] for character in text]
        except KeyError as error:
            raise ValueError(f"the character {error} is not in the vocabulary") from None
        return as_tensor(np.array(numbers, np.int64))

    def decode(self, codes: Tensor | Sequence[int]) -> str:
        """Numbers as characters."""
        listed: Any = codes.tolist() if isinstance(codes, Tensor) else codes
        return "".join(self.vocabulary[i] for i in listed)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"window {index} is out of range: there are {len(self)}")
        index %= len(self)
        codes = self.codes._array
        window = codes[index : index + self.length + 1]
        return as_tensor(window[:-1]), as_tensor(window[1:])

    def __len__(self) -> int:
        return len(self.codes) - self.length


def characters(source: str | Path, length: int = 64, vocabulary: str | None = None) -> Characters:
    """`Characters` of a text (a `str`) or of a file (a `Path`).

    >>> import gradwalk as gw
    >>> len(gw.data.characters("to be or not to be", length=8))
    10
    """
    try:
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    except UnicodeDecodeError as error:
        raise ValueError(f"{source} is not UTF-8 text: {error}. Fix: save it as UTF-8.") from None
    return Characters(text, length, vocabulary)


def _circle(angles: Any) -> Any:
    """Points (n, 2) on the unit circle."""
    return np.stack([np.cos(angles), np.sin(angles)], 1)


def _classes(parts: Sequence[Any], noise: float, source: np.random.Generator) -> TensorDataset:
    """The points of all parts with noise, labelled by part."""
    points = np.concatenate(parts)
    labels = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    points = points + noise * source.standard_normal(points.shape)
    return TensorDataset(as_tensor(points.astype(np.float32)), as_tensor(labels.astype(np.int64)))
