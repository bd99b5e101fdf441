"""ONNX's own backend tests: cases with numbers that the package `onnx` makes, or ships as files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import numpy_helper

# Tensors of other types: there is no dtype for them.
OTHER_TYPES = {
    "sequence_type": "a sequence of tensors",
    "optional_type": "an optional value",
    "STRING": "strings",
    **dict.fromkeys(("INT2", "UINT2", "INT4", "UINT4"), "integers of less than 8 bits"),
    **dict.fromkeys(
        (
            "FLOAT4E2M1", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
            "FLOAT8E8M0",
        ),
        "floats of 8 bits or less",
    ),
}  # fmt: skip

# Cases that do not pass, and why.
EXCLUDED = {
    **dict.fromkeys(
        (
            "test_bernoulli", "test_bernoulli_double", "test_bernoulli_double_expanded",
            "test_bernoulli_expanded", "test_bernoulli_seed", "test_bernoulli_seed_expanded",
            "test_training_dropout", "test_training_dropout_default",
            "test_training_dropout_default_mask", "test_training_dropout_mask",
        ),
        "expects NumPy's random numbers",
    ),
    **dict.fromkeys(
        ("test_dft_inverse", "test_dft_inverse_opset19"),
        "expects 1.9e-7, an error of rounding, where the result is 0",
    ),
    **dict.fromkeys(
        ("test_attention_4d_causal_fp16", "test_attention_4d_causal_fp16_expanded"),
        "allows one element in a thousand parts, and float16 has steps of a thousandth",
    ),
    **dict.fromkeys(
        (
            "test_image_decoder_decode_bmp_rgb", "test_image_decoder_decode_jpeg2k_rgb",
            "test_image_decoder_decode_jpeg_bgr", "test_image_decoder_decode_jpeg_grayscale",
            "test_image_decoder_decode_jpeg_rgb", "test_image_decoder_decode_png_rgb",
            "test_image_decoder_decode_pnm_rgb", "test_image_decoder_decode_tiff_rgb",
            "test_image_decoder_decode_webp_rgb",
        ),
        "decodes image files",
    ),
    **dict.fromkeys(
        (
            "test_ai_onnx_ml_tree_ensemble_set_membership",
            "test_ai_onnx_ml_tree_ensemble_single_tree",
        ),
        "is a forest of decision trees",
    ),
    **dict.fromkeys(
        (
            "test_resize_downsample_scales_cubic_align_corners",
            "test_resize_downsample_scales_linear_align_corners",
        ),
        "aligns with a length of 1.2 pixels; PyTorch and ONNX Runtime take the result's, 1",
    ),
}  # fmt: skip


class Case(NamedTuple):
    """A model, and inputs with the outputs that they should give."""

    name: str
    model: Any
    data: list[tuple[list[Any], list[Any]]]
    rtol: float = 1e-3
    atol: float = 1e-7

    def __str__(self) -> str:
        return self.name

    def other_types(self) -> set[str]:
        """The types of inputs and outputs that gradwalk has not."""
        found = set()
        for value in (*self.model.graph.input, *self.model.graph.output):
            kind = value.type.WhichOneof("value")
            if kind == "tensor_type":
                kind = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
            found.add(kind)
        return found & OTHER_TYPES.keys()


def cases() -> Iterator[Case]:
    """All cases: those of operators, and small models that PyTorch wrote long ago."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, about numbers out of range
        made = collect_testcases(None)
    for case in made:
        yield Case(case.name, case.model, list(case.data_sets), case.rtol, case.atol)
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        for folder in sorted((data / kind).iterdir()):
            model = onnx.load(folder / "model.onnx")
            sets = [
                (_stored(each, "input"), _stored(each, "output"))
                for each in sorted(folder.glob("test_data_set_*"))
            ]
            yield Case(f"{kind}/{folder.name}", model, sets)


def _stored(folder: Path, kind: str) -> list[Any]:
    count = len(list(folder.glob(f"{kind}_*.pb")))
    read = [(folder / f"{kind}_{i}.pb").read_bytes() for i in range(count)]
    return [onnx.TensorProto.FromString(content) for content in read]


def numbers(stored: Any) -> Any:
    """What a case has as an array, or as a tensor of a file."""
    is_proto = isinstance(stored, onnx.TensorProto)
    return numpy_helper.to_array(stored) if is_proto else stored
