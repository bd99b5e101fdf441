"""Noisy waves: an LSTM hears the beginning of each and continues it from memory.

    python examples/sequence.py

Every wave has its own frequency, phase and damping, and noise on top. The network is trained only
to predict the next number. A network without memory, trained beside it, shows how little the last
number alone tells: not even whether the wave is going up or down.
"""

import argparse
import math
from pathlib import Path

import gradwalk as gw
from gradwalk import nn
from gradwalk.nn import functional as F

HEARD, AHEAD = 40, 40  # of each test wave: numbers given, numbers to forecast


def waves(n: int, length: int) -> gw.Tensor:
    """Damped sines, without noise: (n, length, 1)."""
    t = gw.arange(length)  # (length,)
    frequency = 0.2 + 0.3 * gw.rand(n, 1)  # a period takes 12 to 31 numbers
    phase = 2 * math.pi * gw.rand(n, 1)
    damping = 0.02 * gw.rand(n, 1)
    return ((-damping * t).exp() * (frequency * t + phase).sin()).unsqueeze(2)


class Memory(nn.Module):
    """An LSTM and a linear layer that reads the next number from its state."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x: gw.Tensor, state=None):
        out, state = self.lstm(x, state)  # (batch, time, hidden), and what it remembers
        return self.head(out), state  # (batch, time, 1)


class NoMemory(nn.Module):
    """The same task with the last number only."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x: gw.Tensor, state=None):
        return self.layers(x), None  # a linear layer acts on every time step separately


@gw.no_grad()
def forecast(model: nn.Module, heard: gw.Tensor, steps: int) -> gw.Tensor:
    """Continue (batch, time, 1) by its own guesses: (batch, steps, 1)."""
    guesses, state = model(heard)
    following = [guesses[:, -1:]]  # (batch, 1, 1)
    while len(following) < steps:  # each guess becomes the next input
        guess, state = model(following[-1], state)
        following.append(guess)
    return gw.cat(following, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="batches of 32 waves to train on")
    parser.add_argument("--hidden", type=int, default=32, help="size of the memory")
    parser.add_argument("--noise", type=float, default=0.1, help="its standard deviation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where it computes: cpu, cuda, tpu or xla")
    parser.add_argument("--out", type=Path, default=Path("sequence.png"), help="the picture")
    parser.add_argument("--quick", action="store_true", help="a tiny run, to see that it works")
    options = parser.parse_args()
    gw.set_default_device(options.device)
    if options.quick:
        options.steps = 20

    gw.set_num_threads(1)  # several threads are slower on small arrays
    gw.manual_seed(options.seed)
    truth = waves(200, HEARD + AHEAD)  # to test on
    heard = truth[:, :HEARD] + options.noise * gw.randn(200, HEARD, 1)

    models = {"LSTM": Memory(options.hidden), "no memory": NoMemory(options.hidden)}
    parameters = [p for model in models.values() for p in model.parameters()]
    optimizer = gw.optim.Adam(parameters, lr=0.01)
    schedule = gw.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    bar = gw.data.progress(range(options.steps), "training")
    for _ in bar:
        clean = waves(32, 61)  # new waves in every batch, so nothing can be memorized
        noisy = clean + options.noise * gw.randn_like(clean)
        losses = {
            name: F.mse_loss(model(noisy[:, :-1])[0], noisy[:, 1:])
            for name, model in models.items()
        }
        optimizer.zero_grad()
        sum(losses.values()).backward()  # they share no parameter: each gets its own gradient
        nn.utils.clip_grad_norm_(models["LSTM"].parameters(), 1.0)  # 60 steps can explode
        optimizer.step()
        schedule.step()
        bar.note(**{name.replace(" ", "_"): loss.item() for name, loss in losses.items()})

    forecasts = {name: forecast(model, heard, AHEAD) for name, model in models.items()}
    errors = {
        name: ((guess - truth[:, HEARD:]) ** 2).mean((0, 2)).sqrt()  # (AHEAD,)
        for name, guess in forecasts.items()
    }
    print("root mean square error against the wave without noise, on 200 new waves:")
    print(f"{'':12}{'next number':>12}{'10 ahead':>10}{f'{AHEAD} ahead':>10}")
    for name, error in errors.items():
        print(f"{name:12}{error[0].item():12.3f}{error[9].item():10.3f}{error[-1].item():10.3f}")
    draw(truth, heard, forecasts, errors, options.out)
    print(
        "\nNext:\n"
        "  --hidden 4     too small a memory for frequency, phase and damping together\n"
        "  --noise 0.5    noise hides the waves; it still finds their pitch, and grows careful\n"
        "  --steps 300    the next number is easy; later numbers take longer to learn\n"
        "  examples/characters.py continues text, with attention instead of an LSTM"
    )


def draw(
    truth: gw.Tensor,
    heard: gw.Tensor,
    forecasts: dict[str, gw.Tensor],
    errors: dict[str, gw.Tensor],
    out: Path,
) -> None:
    """Save a picture: four waves with their forecasts, and the error by distance."""
    try:
        from matplotlib.figure import Figure  # not pyplot, which looks for a screen
    except ImportError:
        print("No picture: matplotlib is missing. Get it: python -m pip install matplotlib")
        return
    colours = {"LSTM": "tab:blue", "no memory": "tab:orange"}
    figure = Figure(figsize=(13, 5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[5, 2])
    left.suptitle("Heard up to the line, then continued from memory")
    panels = left.subplots(2, 2, sharex=True, sharey=True)
    ahead = range(HEARD, HEARD + AHEAD)
    for i, axes in enumerate(panels.flat):
        axes.plot(truth[i].cpu().numpy(), color="0.8", linewidth=6, label="truth")
        axes.plot(heard[i].cpu().numpy(), ".", color="0.3", markersize=4, label="heard")
        for name, guess in forecasts.items():
            axes.plot(ahead, guess[i].cpu().numpy(), color=colours[name], label=name)
        axes.axvline(HEARD - 0.5, color="0.5", linestyle="--", linewidth=1)
    for axes in panels[1]:
        axes.set_xlabel("time")
    left.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    axes = right.subplots()
    for name, error in errors.items():
        axes.plot(range(1, AHEAD + 1), error.cpu().numpy(), color=colours[name], label=name)
    axes.set(title="Error on 200 waves", xlabel="numbers ahead", ylabel="root mean square")
    axes.set_ylim(bottom=0)
    axes.legend()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    print(f"picture: {out.resolve()}")


if __name__ == "__main__":
    main()
