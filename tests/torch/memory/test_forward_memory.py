"""What a forward pass keeps: equal to what it really keeps, with and without checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gradwalk as gw
import gradwalk.torch
from gradwalk.torch.memory.forward_memory import checkpointed
from gradwalk.torch.memory.out_of_memory import is_out_of_memory, out_of_memory


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = (x @ x.mT).softmax(-1)  # SCORES
        x = x + scores @ x
        return x + self.drop(self.down(torch.relu(self.up(self.norm(x)))))


class Net(nn.Module):
    def __init__(self, reads: bool = False) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.blocks = nn.ModuleList([Block(32) for _ in range(4)])
        self.head = nn.Linear(32, 1)
        self.reads = reads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x)
        if self.reads and h.sum().item() > 1e9:  # a fake tensor has no numbers
            return h
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def really_kept(model: nn.Module, x: torch.Tensor) -> int:
    """Bytes of the distinct storages that the graph holds, without weights: counted by autograd."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    seen: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = model(x)
    assert out.requires_grad
    return sum(seen.values())


@pytest.mark.parametrize("reads", [False, True])
def test_total_and_prediction_are_what_a_run_keeps(reads: bool) -> None:
    torch.manual_seed(0)
    model, x = Net(reads), torch.randn(4, 64, 8)
    memory = gradwalk.torch.saved_memory(model, x)
    assert memory.total == really_kept(model, x)
    assert bool(memory.notes) == reads
    advice = memory.advice
    assert advice is not None and advice.modules == [f"blocks.{k}" for k in range(4)]
    assert advice.kept == advice.measured
    with checkpointed(model, advice.modules):
        assert advice.kept == really_kept(model, x)
    assert advice.kept + advice.largest < memory.total / 2
    line = next(iter(memory.by_line))
    assert "# SCORES" in line or "self.drop" in line
    assert sum(memory.by_line.values()) == sum(memory.by_module.values()) == memory.total


def test_the_model_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    model, x = Net(), torch.randn(2, 16, 8)
    state = torch.get_rng_state()
    gradwalk.torch.saved_memory(model, x)
    assert torch.equal(state, torch.get_rng_state())
    assert all("forward" not in vars(module) for module in model.modules())
    assert all(p.grad is None and type(p) is nn.Parameter for p in model.parameters())
    model(x).sum().backward()


def test_nothing_to_checkpoint() -> None:
    memory = gradwalk.torch.saved_memory(nn.Linear(4, 4), torch.randn(8, 4))
    assert memory.advice is None and "smaller batch" in str(memory)
    assert memory.total == 8 * 4 * 4


def test_a_model_that_fits_nowhere_is_measured_and_explained() -> None:
    model = Net()
    with pytest.raises(RuntimeError) as caught:
        model(torch.randn(1, 4_000_000, 8))  # scores of 58 TiB
    report = out_of_memory(caught.value)
    assert report is not None and report.memory is not None
    assert report.line is not None and "# SCORES" in report.line.text
    assert report.module == "blocks.0" and report.asked == "58.21 TiB"
    assert report.memory.advice is not None
    assert report.memory.advice.kept == report.memory.advice.measured
    assert "blocks.0 … blocks.3" in str(report) and "remains: a smaller batch" in str(report)


def test_other_errors_are_none_of_it() -> None:
    with pytest.raises(RuntimeError) as caught:
        Net()(torch.randn(1, 4, 9))
    assert not is_out_of_memory(caught.value) and out_of_memory(caught.value) is None
    assert is_out_of_memory(
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    )


def test_an_error_outside_of_a_model() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50)
    report = out_of_memory(caught.value)
    assert report is not None and report.memory is None and report.asked == "4 PiB"
    assert "smaller batch" in str(report)


def test_saved_memory_of_a_recording_counts_no_weights() -> None:
    torch.manual_seed(0)
    model, x = Net(), torch.randn(4, 16, 8)
    with gradwalk.torch.record() as trace:
        model(x).square().mean().backward()
    kept = gw.saved_memory(trace)
    weights = {p.nbytes for p in model.parameters() if p.ndim > 1}
    assert not any(set(node.keeps.values()) & weights for node in kept.nodes if node.op == "addmm")


def test_checkpoints_of_the_program_are_seen() -> None:
    class Checkpointed(Net):
        def forward(self, x: torch.Tensor) -> Any:
            h = self.embed(x)
            for block in self.blocks:
                h = checkpoint(block, h, use_reentrant=False)
            return self.head(h)

    torch.manual_seed(0)
    x = torch.randn(4, 64, 8)
    advice = gradwalk.torch.saved_memory(Net(), x).advice
    assert advice is not None
    assert gradwalk.torch.saved_memory(Checkpointed(), x).total == advice.kept
