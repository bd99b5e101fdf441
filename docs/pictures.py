"""Draw the pictures of the documentation again: `python docs/pictures.py`."""

import io
import re
from pathlib import Path

from rich.console import Console

from gradwalk.cli import neuron
from gradwalk.printers.terminal import show_walk

IMAGES = Path(__file__).parent / "images"


def draw_neuron() -> None:
    """What `make run` prints, as an SVG that fetches nothing from elsewhere."""
    console = Console(record=True, width=66, file=io.StringIO())
    o = neuron()
    o.backward()
    show_walk(o, console)
    svg = console.export_svg(title="gradwalk", unique_id="neuron")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    (IMAGES / "neuron.svg").write_text(svg.replace("Fira Code, ", ""), encoding="utf-8")


if __name__ == "__main__":
    draw_neuron()
