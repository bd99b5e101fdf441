"""A program that trains on a mesh of several processes and saves after every step.

Run by test_sharded_runs.py and by tools of one's own: `python sharded_training.py FOLDER STEPS`, in
each process of a job. It resumes from the last save.
"""

import os
import sys
from typing import Any

import gradwalk as gw


def main(folder: str, steps: int) -> None:
    gw.distributed.init(timeout=30)
    mesh = gw.Mesh(data=-1, model=2)
    path = os.path.join(folder, "run.safetensors")
    nn = gw.nn
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 2))
    gw.distribute(model, mesh, {"0.*": ("data",), "3.weight": (None, "model")})
    optimizer = gw.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = gw.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    loader = gw.data.DataLoader(
        gw.data.moons(100), batch_size=16, shuffle=True, drop_last=True, mesh=mesh
    )
    parts = dict(model=model, optimizer=optimizer, scheduler=scheduler, loader=loader)

    @gw.compile
    def train(points: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points), labels)
        loss.backward()
        optimizer.step()
        return loss

    step = gw.load_run(path, **parts)["step"] if os.path.exists(path) else 0
    print("ready", step, flush=True)
    while step < steps:
        for points, labels in loader:
            train(points, labels)
            scheduler.step()
            step += 1
            gw.save_run(path, **parts, step=step)
            print(step, flush=True)
            if step == steps:
                break
    whole = {name: gw.distribute(value, mesh).cpu() for name, value in model.state_dict().items()}
    if gw.distributed.get_rank() == 0:
        gw.save(whole, os.path.join(folder, "final.safetensors"))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
