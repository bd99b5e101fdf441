"""The digits that the page's playground trains on: the first of gradwalk's training images."""

from __future__ import annotations

from gradwalk.data.datasets import digits

COUNT = 128  # POINTS of web/src/playground/settings.ts
SHADES = "0123456789abcdefg"  # 16 of them between white and black


def digit_images() -> str:
    """The module web/src/generated/digits.ts: of each image the digit, then its 64 shades."""
    images, labels = (tensor.tolist() for tensor in digits("train").tensors)
    rows = [
        f'  "{label}'
        + "".join(SHADES[round(16 * shade)] for row in image[0] for shade in row)
        + '",'
        for image, label in zip(images[:COUNT], labels, strict=False)
    ]
    lines = [
        "// Written by `python -m tools.page.tables` from gradwalk.data.digits.",
        "export const DIGITS = [",
        *rows,
        "];",
    ]
    return "\n".join(lines) + "\n"
