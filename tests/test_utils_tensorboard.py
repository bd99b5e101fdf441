"""Event files of TensorBoard, and the writer that programs of PyTorch use."""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.io import event_file
from gradwalk.utils import tensorboard


def test_the_checksum_is_the_published_one() -> None:
    assert event_file.crc32c(b"123456789") == 0xE3069283


def records(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack_from("<Q", data)
        assert data[: 16 + length] == event_file.record(data[12 : 12 + length])
        yield data[12 : 12 + length]
        data = data[16 + length :]


def fields(message: bytes) -> dict[int, Any]:
    """The fields of a message by number; of a repeated one, the last."""
    found: dict[int, Any] = {}
    while message:
        key, message = varint(message)
        if key & 7 == 0:
            found[key >> 3], message = varint(message)
        elif key & 7 == 2:
            size, message = varint(message)
            found[key >> 3], message = message[:size], message[size:]
        else:
            form = "<d" if key & 7 == 1 else "<f"
            (found[key >> 3],) = struct.unpack_from(form, message)
            message = message[struct.calcsize(form) :]
    return found


def varint(data: bytes) -> tuple[int, bytes]:
    number = 0
    for i, byte in enumerate(data):
        number |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return number, data[i + 1 :]
    raise AssertionError("a number does not end")


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    tensorboard._writer.cache_clear()
    yield
    tensorboard._writer.cache_clear()


def values(folder: Path) -> list[tuple[int, dict[int, Any]]]:
    """The step and the value of each event of a run."""
    (path,) = folder.glob("events.out.tfevents.*")
    first, *rest = [fields(event) for event in records(path)]
    assert first[3] == b"brain.Event:2"
    return [(event.get(2, 0), fields(fields(event[5])[1])) for event in rest]


@pytest.mark.usefixtures("without_package")
def test_a_run_without_tensorboardx(tmp_path: Path) -> None:
    from gradwalk.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("loss", gw.tensor([0.5]), 1)
        writer.add_scalar("steps", np.int64(300), gw.tensor(2), walltime=7)
        writer.add_text("words", "a *b*")
        writer.add_histogram("weights", gw.tensor([0.0, 1.0, 1.0, 4.0]), 3, bins=2)
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 4)
        writer.add_graph(None)
        writer.add_hparams({"rate": 0.1}, {"accuracy": 0.25})
    loss, steps, words, weights, table, accuracy = values(tmp_path)
    assert loss == (1, {1: b"loss", 2: 0.5}) and steps == (2, {1: b"steps", 2: 300.0})
    assert words[1][1] == b"words/text_summary" and fields(words[1][8])[8] == b"a *b*"
    histogram = fields(weights[1][5])
    assert [histogram[i] for i in range(1, 6)] == [0, 4, 4, 6, 18]
    assert np.frombuffer(histogram[6]).tolist() == [2, 4]
    assert np.frombuffer(histogram[7]).tolist() == [3, 1]
    assert b"|rate|0.1|" in fields(table[1][8])[8] and accuracy[1][2] == 0.25
    assert values(tmp_path / "both_b") == [(4, {1: b"both", 2: 2.0})]


def pixels_of(png: bytes) -> np.ndarray:
    width, height, _, color = struct.unpack_from(">IIBB", png, 16)
    size = struct.unpack_from(">I", png, 33)[0]
    channels = {0: 1, 2: 3, 6: 4}[color]
    rows = np.frombuffer(zlib.decompress(png[41 : 41 + size]), np.uint8)
    return rows.reshape(height, 1 + width * channels)[:, 1:].reshape(height, width, channels)


@pytest.mark.usefixtures("without_package")
def test_pictures(tmp_path: Path) -> None:
    from gradwalk.utils.tensorboard import SummaryWriter

    picture = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("colors", picture, dataformats="HWC")
        writer.add_image("grey", gw.tensor([[0.0, 1.0], [0.5, 2.0]]), 1, dataformats="HW")
        writer.add_images("nine", gw.ones(9, 1, 2, 3))
    colors, grey, nine = (pixels_of(fields(value[4])[4]) for _, value in values(tmp_path))
    assert (colors == picture).all()
    assert grey[..., 0].tolist() == [[0, 255], [127, 255]]
    assert nine.shape == (4, 24, 1) and nine.sum() == 9 * 6 * 255


@pytest.mark.usefixtures("without_package")
def test_a_picture_of_other_dimensions_is_refused(tmp_path: Path) -> None:
    with (
        tensorboard.PlainWriter(tmp_path) as writer,
        pytest.raises(ValueError, match="cannot be 'CHW'"),
    ):
        writer.add_image("x", gw.ones(2, 2))
