"""An oscillator without data: a network learns u'' + u = 0 from the equation alone.

    python examples/oscillator.py

The network never sees the answer, sin(t). The loss only measures whether the equation holds at some
points, and whether u(0) = 0 and u'(0) = 1. Autograd computes the second derivative of the network,
and differentiates it once more, with respect to the weights, to train it.
"""

import argparse
import math
from pathlib import Path

import gradwalk as gw
from gradwalk import nn


def derivative(u: gw.Tensor, t: gw.Tensor) -> gw.Tensor:
    """du/dt at every point, in a form that can be differentiated again."""
    # Each u depends only on its own t, so the gradient of the sum holds all the derivatives.
    (slope,) = gw.autograd.grad(u.sum(), t, create_graph=True)
    return slope


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500, help="steps of Adam")
    parser.add_argument("--refine", type=int, default=25, help="rounds of L-BFGS after that")
    parser.add_argument("--periods", type=float, default=1.0, help="length of the solution")
    parser.add_argument("--points", type=int, default=64, help="collocation points")
    parser.add_argument("--start", type=float, default=100.0, help="weight of the initial values")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where it computes: cpu, cuda, tpu or xla")
    parser.add_argument("--out", type=Path, default=Path("oscillator.png"), help="the picture")
    parser.add_argument("--quick", action="store_true", help="a tiny run, to see that it works")
    options = parser.parse_args()
    gw.set_default_device(options.device)
    if options.quick:
        options.steps, options.refine = 30, 2

    gw.manual_seed(options.seed)
    gw.set_default_dtype(gw.float64)  # errors of 1e-5 squared are lost in float32
    end = 2 * math.pi * options.periods
    net = nn.Sequential(
        nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )  # tanh, not ReLU: the second derivative of ReLU is 0

    def u_of(t: gw.Tensor) -> gw.Tensor:
        return net(2 * t / end - 1)  # (points, 1); networks learn best on inputs from -1 to 1

    times = gw.linspace(0, end, options.points).reshape(-1, 1).requires_grad_()  # (points, 1)
    zero = gw.zeros(1, 1, requires_grad=True)

    def loss_of_the_equation() -> gw.Tensor:
        u = u_of(times)
        acceleration = derivative(derivative(u, times), times)
        u_start = u_of(zero)
        start = u_start**2 + (derivative(u_start, zero) - 1) ** 2
        return ((acceleration + u) ** 2).sum() + options.start * start.sum()

    # Adam finds the valley; L-BFGS, which estimates the curvature, finds its bottom.
    losses = []
    optimizer = gw.optim.Adam(net.parameters(), lr=5e-3)
    bar = gw.data.progress(range(options.steps), "Adam  ")
    for _ in bar:
        loss = loss_of_the_equation()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        bar.note(loss=losses[-1])
    adam_steps = len(losses)

    optimizer = gw.optim.LBFGS(
        net.parameters(), max_iter=20, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> gw.Tensor:  # L-BFGS evaluates the loss several times per step
        optimizer.zero_grad()
        loss = loss_of_the_equation()
        loss.backward()
        losses.append(loss.item())
        return loss

    bar = gw.data.progress(range(options.refine), "L-BFGS")
    for _ in bar:
        optimizer.step(closure)
        bar.note(loss=losses[-1])

    t = gw.linspace(0, end, 500).reshape(-1, 1)  # between the points as well
    with gw.no_grad():
        u = u_of(t)  # (500, 1)
    error = (u - t.sin()).abs()
    print(f"loss {losses[0]:.3g} at first, {losses[adam_steps - 1]:.3g} after Adam, ", end="")
    print(f"{losses[-1]:.3g} after L-BFGS")
    print(f"largest error of u(t) against sin(t): {error.max().item():.2e}")
    draw(t, u, times.detach(), losses, adam_steps, options.out)
    print(
        "\nNext:\n"
        "  --start 0     only the equation: u = 0 solves it too, and is easier to find\n"
        "  --points 8    the loss becomes 0 but the answer is wrong between the points\n"
        "  --refine 0    Adam alone: fifty times the error\n"
        "  --periods 3   far from the start the oscillation is lost; --points 200 helps\n"
        "  examples/sequence.py learns oscillations from noisy data, without an equation"
    )


def draw(
    t: gw.Tensor, u: gw.Tensor, times: gw.Tensor, losses: list[float], adam_steps: int, out: Path
) -> None:
    """Save a picture: the solution, its error, and the loss during training."""
    try:
        from matplotlib.figure import Figure  # not pyplot, which looks for a screen
    except ImportError:
        print("No picture: matplotlib is missing. Get it: python -m pip install matplotlib")
        return
    t, u, times = t.cpu(), u.cpu(), times.cpu()
    exact = t.sin()
    figure = Figure(figsize=(13, 4), layout="constrained")
    figure.get_layout_engine().set(wspace=0.05)
    solution, errors, curve = figure.subplots(1, 3)
    solution.plot(t.numpy(), exact.numpy(), color="0.8", linewidth=7, label="sin(t)")
    solution.plot(t.numpy(), u.numpy(), color="tab:blue", label="network")
    height = min(u.min().item(), -1) - 0.15
    marks = [height] * len(times)
    solution.plot(times.numpy(), marks, "|", color="tab:orange", label="u'' + u = 0 asked here")
    solution.set(title="Solution", xlabel="t", ylabel="u")
    solution.legend()
    errors.plot(t.numpy(), (u - exact).numpy(), color="tab:red")
    errors.axhline(0, color="0.7", linewidth=1)
    errors.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    errors.set(title="Error", xlabel="t", ylabel="u − sin(t)")
    curve.semilogy(losses)
    curve.axvline(adam_steps, color="0.5", linestyle="--", label="from Adam to L-BFGS")
    curve.set(title="Loss", xlabel="evaluation")
    curve.legend()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    print(f"picture: {out.resolve()}")


if __name__ == "__main__":
    main()
