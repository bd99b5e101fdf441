"""What the processes of tools.coverage share: imports that take seconds each."""

import torch


def declare_missing_operations() -> None:
    """Declare torchvision's detection operations where its compiled part does not load.

    A torchvision built for another device than PyTorch lacks them and then refuses to be imported.
    No architecture of the table calls them.
    """
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in ("nms", "qnms"):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", schema)


declare_missing_operations()

import timm  # noqa: E402
import torch._dynamo  # noqa: E402
import torch.export  # noqa: E402
import transformers.modeling_utils  # noqa: E402

import tools.coverage.examine  # noqa: E402

__all__ = ["timm", "tools", "torch", "transformers"]
