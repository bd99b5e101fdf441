"""Matrix products, also of integers and of quantized numbers; Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.operators.quantization import centered, requantized
from gradwalk.onnx.operators.table import OnnxNode, constant, direct, operator

direct(MatMul=gw.matmul, Det=gw.det)


@operator("Gemm")
def gemm(node: OnnxNode, a: Any, b: Any, c: Any = None) -> Any:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    a = a.mT if node.get("transA", 0) else a
    if alpha == beta == 1 and c is not None and c.ndim == 1:
        return gw.linear(a, b if node.get("transB", 0) else b.mT, c)
    out = gw.matmul(a, b.mT if node.get("transB", 0) else b)
    out = out if alpha == 1 else (alpha * out).to(out.dtype)
    if c is None:
        return out
    return out + (c if beta == 1 else (beta * c).to(c.dtype))


@operator("Einsum")
def einsum(node: OnnxNode, *xs: Any) -> Any:
    return gw.einsum(node.get("equation"), *xs)


@operator("MatMulInteger")
def matmul_integer(node: OnnxNode, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    if a_zero is not None and a_zero.ndim == 1 and a_zero.shape[0] > 1:
        a_zero = gw.unsqueeze(a_zero, -1)  # one for each row
    return gw.matmul(centered(a, a_zero), centered(b, b_zero)).to(gw.int32)


@operator("QLinearMatMul")
def qlinear_matmul(
    node: OnnxNode, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    scale: Any, zero: Any,
) -> Any:  # fmt: skip
    product = gw.matmul(centered(a, a_zero), centered(b, b_zero))
    factor = a_scale.double() * b_scale.double() / scale.double()
    return requantized(product * factor, zero)


# -- Fourier transforms: products with a matrix of cosines and sines -------------------------------


def _turned(x: Any, size: int, inverse: bool, rows: int | None = None) -> tuple[Any, Any]:
    """The real and the imaginary part of the transform along the last but one dimension of
    (..., time, 1 or 2)."""
    count = size if rows is None else rows
    angles = 2 * np.pi * np.outer(np.arange(count), np.arange(size)) / size
    sign = 1.0 if inverse else -1.0
    cos, sin = constant(np.cos(angles)), constant(sign * np.sin(angles))
    real = x[..., 0].double()
    parts = real @ cos.mT, real @ sin.mT
    if x.shape[-1] == 2:
        imaginary = x[..., 1].double()
        parts = parts[0] - imaginary @ sin.mT, parts[1] + imaginary @ cos.mT
    return parts[0].to(x.dtype), parts[1].to(x.dtype)


def _sized(x: Any, size: int) -> Any:
    """Cut or padded with zeros to a length along the last but one dimension."""
    own = x.shape[-2]
    if size <= own:
        return gw.narrow(x, -2, 0, size)
    return gw.cat([x, x.new_zeros((*x.shape[:-2], size - own, x.shape[-1]))], -2)


@operator("DFT", numbers=(1, 2))
def dft(node: OnnxNode, x: Any, length: Any = None, axis: Any = None) -> Any:
    along = int(node.get("axis", 1) if node.version < 20 else (-2 if axis is None else axis))
    along %= x.ndim
    inverse, onesided = bool(node.get("inverse", 0)), bool(node.get("onesided", 0))
    moved = gw.movedim(x, along, -2)
    size = moved.shape[-2] if length is None else int(length)
    if inverse and onesided:  # the other half is the conjugate
        size = 2 * (moved.shape[-2] - 1) if length is None else int(length)
        half = _sized(moved, size // 2 + 1)
        rest = gw.flip(half[..., 1 : (size + 1) // 2, :], (-2,))
        mirror = gw.stack([rest[..., 0], -rest[..., 1]], -1)
        real, _ = _turned(gw.cat([half, mirror], -2), size, True)
        return gw.movedim(gw.unsqueeze(real / size, -1), -2, along)
    rows = size // 2 + 1 if onesided else None
    parts = _turned(_sized(moved, size), size, inverse, rows)
    out = gw.stack(list(parts), -1)
    return gw.movedim(out / size if inverse else out, -2, along)


@operator("STFT", numbers=(1, 3))
def stft(node: OnnxNode, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    size = window.shape[0] if window is not None else int(length)
    x = x.unsqueeze(-1) if x.ndim == 2 else x  # ONNX Runtime takes real signals without it
    frames = x.unfold(1, size, int(step))  # (batch, frames, 1 or 2, time)
    if window is not None:
        frames = frames * window
    rows = size // 2 + 1 if node.get("onesided", 1) and x.shape[-1] == 1 else None
    return gw.stack(list(_turned(frames.mT, size, False, rows)), -1)
