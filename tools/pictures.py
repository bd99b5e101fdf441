"""Draw the pictures of the documentation: `python -m tools.pictures`."""

import tempfile
from pathlib import Path

import gradwalk as gw
from gradwalk import nn
from gradwalk.inspect import record, show
from gradwalk.inspect.expression.parser import parse
from gradwalk.printers.graphs.frames import frames_of
from gradwalk.printers.graphs.svg import Sheet, graph_svg
from gradwalk.printers.graphs.view import view_of
from gradwalk.studio.presets import PRESETS

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def save(name: str, svg: str) -> None:
    """Write one picture."""
    (IMAGES / name).write_text(svg, encoding="utf-8")


def draw_neuron() -> None:
    """The neuron of the README after its backward pass, in both drawings."""
    neuron = next(preset for preset in PRESETS if preset.id == "neuron").trace()
    save("neuron.svg", graph_svg(neuron))
    save("neuron-edges.svg", graph_svg(neuron, "edges"))


def draw_expression() -> None:
    """The program of docs/inspect/expressions.md."""
    program = parse("e = a·b; d = e + c; L = d·f")
    save("expression.svg", show(program.build(a=2, b=-3, c=5, f=-2).trace()).svg())


def draw_step() -> None:
    """A step of the diamond's walk: a has half of its gradient."""
    view = view_of(parse("b = a + 1; c = 3*a; d = b*c").build(a=2).trace())
    save("diamond-step.svg", Sheet(view).svg(frames_of(view)[6]))


def draw_model() -> None:
    """A small network, its module calls closed."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    x, y = gw.ones(5, 4), gw.tensor([0, 1, 2, 0, 1])
    with record() as trace:
        nn.functional.cross_entropy(model(x), y).backward()
    save("model.svg", show(trace, depth=2).svg())


def draw_trace_file() -> None:
    """The trace of docs/inspect/trace-file.md, drawn from the file, its module calls open."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    with record() as trace:
        model(gw.ones(16, 4)).square().mean().backward()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.trace"
        gw.save_trace(trace, path)
        save("trace-file.svg", show(gw.load_trace(path)).svg())


def draw_health() -> None:
    """A stack of sigmoids, as in docs/inspect/health.md."""
    gw.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(7))
    h = gw.randn(64, 16)
    for layer in layers:
        h = layer(h).sigmoid()
    save("health.svg", gw.health(layers, h.square().mean()).svg())


def draw_memory() -> None:
    """The eight layers of docs/inspect/memory.md, checkpointed as planned there."""
    gw.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(8)))
    x = gw.randn(1024, 256)
    with record() as trace:
        model(x).square().mean().backward()
    plan = gw.saved_memory(trace).plan(budget=5 * 2**20)
    with record() as trace:
        plan.run(model, x).square().mean().backward()
    save("memory.svg", gw.saved_memory(trace).svg(plan.budget))


def draw_why() -> None:
    """The diamond, and one element of a matrix product: a dot product."""
    save("diamond.svg", show(parse("b = a + 1; c = 3*a; d = b*c").build(a=2).trace()).svg())
    x = gw.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    m = gw.tensor([[1.0, -1.0], [2.0, 0.5], [0.0, 3.0]], requires_grad=True)
    x.label, m.label = "X", "M"
    with record() as trace:
        y = x @ m
        (y * y).sum().backward()
    save("element.svg", show(gw.element(trace, y, (1, 0)).trace).svg())


def draw_order() -> None:
    """The diamond with one more node below it: the graph of docs/inspect/order-lab.md."""
    program = parse("a = x*1; b = a + 1; c = 3*a; d = b*c")
    save("order-lab.svg", show(program.build(x=2).trace()).svg())


def draw_nan() -> None:
    """The program of docs/inspect/nan.md: the logarithm of zero."""
    w = gw.tensor([[1.0, -2.0], [0.5, 1.0]], requires_grad=True)
    x = gw.tensor([[1.0, 0.0], [1.0, 2.0]])
    w.label, x.label = "w", "x"
    with record() as trace:
        (-((x @ w).relu().log() * 0.5).sum()).backward()
    save("nan.svg", show(trace).svg())


def draw_no_grad() -> None:
    """The program of docs/inspect/no-grad.md: no gradient passes detach()."""
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    w.label, v.label = "w", "v"
    with record() as trace:
        ((w * 2).tanh().detach() * v).sum().backward()
    save("no-grad.svg", show(trace).svg())


def draw_bugs() -> None:
    """a·a as recorded with = instead of +=, as in docs/inspect/bugs.md."""
    a = gw.tensor(3.0, requires_grad=True)
    a.label = "a"
    with gw.bugs.inject("overwrite", op="mul"), record() as trace:
        (a * a).backward()
    save("bugs.svg", show(trace).svg())


if __name__ == "__main__":
    draw_bugs()
    draw_order()
    draw_nan()
    draw_no_grad()
    draw_neuron()
    draw_expression()
    draw_step()
    draw_model()
    draw_trace_file()
    draw_why()
    draw_health()
    draw_memory()
