"""Draw the pictures of the documentation again: `python docs/pictures.py`."""

from pathlib import Path

from gradwalk.cli import neuron
from gradwalk.printers.svg import graph_svg

IMAGES = Path(__file__).parent / "images"


def draw_neuron() -> None:
    """The neuron of the README after its backward pass."""
    o = neuron()
    o.backward()
    (IMAGES / "neuron.svg").write_text(graph_svg(o), encoding="utf-8")


if __name__ == "__main__":
    draw_neuron()
