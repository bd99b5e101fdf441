"""The same tools on an unmodified PyTorch program: `pip install gradwalk[torch]`.

`record()` writes a trace of what happens in its block, which every tool of gradwalk reads;
`watch()` stops training at the first NaN; `import_graph()` brings a model over.

    record/     a program as a trace: operations, autograd nodes, module calls, storages
    watch/      the hooks on a training loop, what they check, and the report of a stopped step
    memory/     what a model keeps for backward, and what to checkpoint
    trainers/   watch in HF Trainer, Lightning and Accelerate
    doctor/     observing a training loop, for the doctor command
    rerun/      snapshots of a step, and running it again
    imports/    a model as a gradwalk function
    translate/  PyTorch's operations as ops of our table
    private.py  everything private of PyTorch that gradwalk uses
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError(
        "gradwalk.torch inspects PyTorch programs, and PyTorch is not installed. "
        "Fix: pip install 'gradwalk[torch]'",
        name="torch",
    )

from gradwalk.torch.imports.import_graph import import_graph
from gradwalk.torch.memory.forward_memory import saved_memory
from gradwalk.torch.memory.out_of_memory import out_of_memory
from gradwalk.torch.record.recorder import TorchRecorder as record
from gradwalk.torch.watch.layer_numbers import LayerNumbers
from gradwalk.torch.watch.step_report import StepStopped
from gradwalk.torch.watch.watch import Watch as watch

__all__ = [
    "LayerNumbers",
    "StepStopped",
    "import_graph",
    "out_of_memory",
    "record",
    "saved_memory",
    "watch",
]
