"""TensorBoard's event files, written without a package: records of protocol-buffer messages.

A record is its length, the data, and a checksum (CRC-32C) of each. A message is a row of fields,
each with its number and its kind; what is written here is the part of TensorBoard's messages that
`SummaryWriter` needs.
"""

from __future__ import annotations

import functools
import os
import socket
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, its bits reversed


@functools.cache
def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ _POLYNOMIAL if byte & 1 else byte >> 1
        table.append(byte)
    return table


def crc32c(data: bytes) -> int:
    """The checksum CRC-32C."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """The data as a record of an event file."""
    length = struct.pack("<Q", len(data))
    return length + _masked_checksum(length) + data + _masked_checksum(data)


def _masked_checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF  # a negative number is written in 64 bits
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: int | float | str | bytes, kind: str = "") -> bytes:
    """A field of a message: an integer, a float ("f" or "d"), or text, bytes or a message."""
    if isinstance(value, float):
        kind = kind or "d"
        return _varint(number << 3 | (5 if kind == "f" else 1)) + struct.pack(f"<{kind}", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def scalar_value(tag: str, value: float) -> bytes:
    """A number, as a value of a summary."""
    return field(1, tag) + field(2, value, "f")


def text_value(tag: str, text: str) -> bytes:
    """A text, which TensorBoard reads as Markdown."""
    kind = field(1, field(1, "text") + field(2, b""))
    text_tensor = field(1, 7) + field(2, field(2, field(1, 1))) + field(8, text)
    return field(1, f"{tag}/text_summary") + field(8, text_tensor) + field(9, kind)


def histogram_value(tag: str, values: np.ndarray, bins: Any) -> bytes:
    """How often values lie in each of the bins."""
    values = np.asarray(values, dtype=np.float64).ravel()
    if not values.size:
        raise ValueError("a histogram of an empty tensor: there is nothing to count")
    counts, edges = np.histogram(values, bins=bins)
    facts = (values.min(), values.max(), values.size, values.sum(), (values * values).sum())
    body = b"".join(field(i, float(fact)) for i, fact in enumerate(facts, 1))
    body += field(6, edges[1:].astype("<f8").tobytes()) + field(7, counts.astype("<f8").tobytes())
    return field(1, tag) + field(5, body)


def image_value(tag: str, pixels: np.ndarray) -> bytes:
    """A picture: bytes of shape (height, width, channels)."""
    height, width, channels = pixels.shape
    facts = field(1, height) + field(2, width) + field(3, channels)
    return field(1, tag) + field(4, facts + field(4, png(pixels)))


def png(pixels: np.ndarray) -> bytes:
    """Bytes of shape (height, width, channels) as a PNG file; channels are grey, grey and alpha,
    colors, or colors and alpha."""
    height, width, channels = pixels.shape
    color = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = np.zeros((height, 1 + width * channels), dtype=np.uint8)  # each begins with its filter
    rows[:, 1:] = pixels.reshape(height, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


class EventFile:
    """An event file in a folder, which TensorBoard shows as one run."""

    def __init__(self, folder: str | os.PathLike[str], suffix: str = "") -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}{suffix}"
        path, copy = Path(folder, name), 0
        while path.exists():  # another writer of this process, in the same second
            path, copy = Path(folder, f"{name}.{copy}"), copy + 1
        self.file = path.open("wb")
        self._write(field(1, now) + field(3, "brain.Event:2"))

    def add(self, value: bytes, step: int | None, moment: float | None) -> None:
        """Write a value of a summary."""
        event = field(1, time.time() if moment is None else float(moment))
        self._write(event + field(2, int(step or 0)) + field(5, field(1, value)))

    def _write(self, event: bytes) -> None:
        self.file.write(record(event))
