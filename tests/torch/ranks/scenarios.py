"""Trainings on two ranks, each with a fault or healthy: `python scenarios.py RANK FOLDER NAME...`.

Every rank writes what its watch found to FOLDER/NAME-RANK.json.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

import gradwalk.torch

STEPS, BAD = 5, 3
WORLD = 2


class Model(nn.Module):
    def __init__(self, norm: type[nn.Module] = nn.BatchNorm1d) -> None:
        super().__init__()
        self.words = nn.Embedding(8, 6)
        self.enc, self.norm = nn.Linear(6, 8), norm(8)
        self.extra = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, words: Any = None, extra: bool = True) -> torch.Tensor:
        words = torch.zeros(len(x), dtype=torch.long) if words is None else words
        hidden = self.norm(torch.relu(self.enc(x + self.words(words))))
        if extra:
            hidden = hidden + self.extra(hidden)
        return self.head(hidden / x.std(1, keepdim=True)).float()  # HERE


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    x = torch.randn(12, 6, generator=generator)
    return x, torch.randint(0, 3, (12,), generator=generator)


def ddp(**options: Any) -> nn.Module:
    torch.manual_seed(0)
    return DistributedDataParallel(Model(), **options)


def sharded(norm: type[nn.Module] = nn.BatchNorm1d, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    model = Model(norm)
    for part in (model.words, model.enc, model.head):
        fully_shard(part, **options)
    fully_shard(model, **options)
    return model


def constant_row(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    """One row of rank 1's batch has the same number everywhere: its deviation is 0."""
    x, y = batch(rank, step)
    if step == BAD and rank == 1:
        x[7] = 0.25
    output = model(x)
    told = output.detach().mean()
    dist.all_reduce(told)  # a collective between the model and backward, as for a progress bar
    return nn.functional.cross_entropy(output, y)


def healthy(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    x, y = batch(rank, step)
    return nn.functional.cross_entropy(model(x), y)


def one_word(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    """Rank 0 makes the gradient of the last word NaN, and rank 1 alone holds that row."""
    x, y = batch(rank, step)
    output = model(x, torch.arange(12) % 8)
    row = model.get_submodule("words")(torch.tensor([7])) * 0
    bad = step == BAD and rank == 0
    return nn.functional.cross_entropy(output, y) + (row.sqrt() if bad else row).sum()  # ROOT


def large(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    """Gradients that float32 holds, and the float16 of the communication does not."""
    return healthy(model, rank, step) * (1e6 if step == BAD else 1.0)


def skips(ranks: tuple[int, ...]) -> Callable[[nn.Module, int, int], torch.Tensor]:
    def loss_of(model: nn.Module, rank: int, step: int) -> torch.Tensor:
        x, y = batch(rank, step)
        used = not (step == BAD and rank in ranks)
        return nn.functional.cross_entropy(model(x, extra=used), y)

    return loss_of


def compressed() -> nn.Module:
    model: Any = ddp()
    model.register_comm_hook(None, fp16_compress_hook)
    return model


HALF = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
SCENARIOS: dict[str, tuple[Callable[[], nn.Module], Any, dict[str, Any]]] = {
    "ddp-healthy": (ddp, healthy, {}),
    "ddp-nan": (ddp, constant_row, {}),
    "ddp-warn": (ddp, constant_row, {"action": "warn"}),
    "ddp-late": (ddp, constant_row, {"late": True}),
    "ddp-late-warn": (ddp, constant_row, {"late": True, "action": "warn"}),
    "ddp-late-healthy": (ddp, healthy, {"late": True}),
    "ddp-reduction": (compressed, large, {"explosion": 1e30}),
    "ddp-unused-everywhere": (ddp, skips((0, 1)), {}),
    "ddp-unused-zeros": (ddp, skips((0, 1)), {}),  # zero_grad(set_to_none=False)
    "ddp-unused-allowed": (lambda: ddp(find_unused_parameters=True), skips((0,)), {}),
    "ddp-unused-on-one": (ddp, skips((0,)), {}),
    "fsdp-healthy": (sharded, healthy, {}),
    "fsdp-nan": (sharded, constant_row, {}),
    "fsdp-warn": (sharded, constant_row, {"action": "warn"}),
    "fsdp-half": (lambda: sharded(nn.LayerNorm, mp_policy=HALF), constant_row, {}),
    "fsdp-one-part": (sharded, one_word, {}),
    "fsdp-watched-on-one": (sharded, healthy, {}),
}


def run(name: str, rank: int, folder: Path) -> dict[str, Any]:
    make, loss_of, options = SCENARIOS[name]
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    watched = None
    if not (name == "fsdp-watched-on-one" and rank == 1):
        watched = gradwalk.torch.watch(model, optimizer, folder=folder / name, **options)
    done = 0
    try:
        for step in range(STEPS):
            optimizer.zero_grad(set_to_none=name != "ddp-unused-zeros")
            loss = loss_of(model, rank, step)
            loss.backward()
            if step == BAD and options.get("action") == "warn":
                before = [p.grad for p in model.parameters()]
            optimizer.step()
            if step == BAD and options.get("action") == "warn":
                kept = zip(before, model.parameters())
                assert all(g is p.grad for g, p in kept), "the re-run changed gradients"
            done += 1
    except gradwalk.torch.StepStopped:
        pass
    finally:
        if watched is not None:
            watched.remove()
    reports = [] if watched is None else watched.reports
    plain = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
    return {
        "done": done,
        "reports": [
            {
                "kind": r.kind,
                "step": r.step,
                "op": r.op,
                "line": r.line.text if r.line else None,
                "row": r.row,
                "side": r.side,
                "rerun": r.rerun,
                "path": r.path,
                "gradients": r.gradients,
                "text": str(r),
                "first": None if r.summary is None else r.summary.rank,
                "summary": str(r.summary),
                "summary_side": None if r.summary is None else r.summary.side,
            }
            for r in reports
        ],
        "finite": all(bool(p.isfinite().all()) for p in plain),
        "overhead": 0.0 if watched is None else watched.overhead,
    }


def main(rank: int, folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    store = dist.FileStore(str(folder / "store"), WORLD)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD)
    for name in names:
        result = run(name, rank, folder)
        (folder / f"{name}-{rank}.json").write_text(json.dumps(result))
        print(name, "done", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
