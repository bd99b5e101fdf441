"""The same tools on an unmodified PyTorch program: `pip install gradwalk[torch]`.

`record()` writes a trace of what happens in its block, which every tool of gradwalk reads;
`watch()` stops training at the first NaN; `import_graph()` brings a model over.
"""

from __future__ import annotations

from gradwalk.torch.importing import import_graph
from gradwalk.torch.recorder import TorchRecorder as record
from gradwalk.torch.start_watching import watch
from gradwalk.torch.step_report import StepStopped

__all__ = ["StepStopped", "import_graph", "record", "watch"]
