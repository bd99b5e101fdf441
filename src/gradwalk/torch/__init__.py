"""The same tools on an unmodified PyTorch program: `pip install gradwalk[torch]`.

`record()` writes a trace of what happens in its block, which every tool of gradwalk reads;
`watch()` stops training at the first NaN; `import_graph()` brings a model over.

    record   recorder (operations), graphs (autograd nodes), modules, memories, source, values,
             unrecorded (a loss that nobody recorded), guest (what the tools ask for)
    watch    start_watching, watching (the hooks), checking, faults, explosions, gradients (what is
             looked at); places, sites, snapshots, states, holders (what is noted before a call);
             statements, rerun, recordings (the step once more); names, step_report (what is said)
    import   importing, exporting, steps, import_checks
    all      translate/ (PyTorch's operations as ops of our table), private (PyTorch's own parts)
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError(
        "gradwalk.torch looks into programs of PyTorch, and PyTorch is not installed. "
        "Fix: pip install 'gradwalk[torch]'",
        name="torch",
    )

from gradwalk.torch.imports.import_graph import import_graph
from gradwalk.torch.record.recorder import TorchRecorder as record
from gradwalk.torch.watch.entry import watch
from gradwalk.torch.watch.step_report import StepStopped

__all__ = ["StepStopped", "import_graph", "record", "watch"]
