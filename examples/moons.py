"""Two half moons: a small network learns where one ends and the other begins.

    python examples/moons.py

All of supervised learning on one page: data, model, loss, backward, step. The picture shows the
network's prediction everywhere in the plane.
"""

import argparse
from pathlib import Path

import gradwalk as gw
from gradwalk import nn
from gradwalk.nn import functional as F


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=100, help="times through the data")
    parser.add_argument("--width", type=int, default=32, help="units in each hidden layer")
    parser.add_argument("--noise", type=float, default=0.2, help="how far points leave their moon")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where it computes: cpu, cuda, tpu or xla")
    parser.add_argument("--out", type=Path, default=Path("moons.png"), help="the picture")
    parser.add_argument("--quick", action="store_true", help="a tiny run, to see that it works")
    options = parser.parse_args()
    gw.set_default_device(options.device)
    if options.quick:
        options.epochs = 5

    gw.manual_seed(options.seed)
    train = gw.data.moons(500, noise=options.noise, seed=options.seed)
    test = gw.data.moons(500, noise=options.noise, seed=options.seed + 1)  # never trained on
    loader = gw.data.DataLoader(train, batch_size=50, shuffle=True)

    model = nn.Sequential(
        nn.Linear(2, options.width),
        nn.Tanh(),
        nn.Linear(options.width, options.width),
        nn.Tanh(),
        nn.Linear(options.width, 2),  # one score per moon; softmax is part of the loss
    )
    optimizer = gw.optim.Adam(model.parameters(), lr=0.01)

    train_losses, test_losses = [], []
    bar = gw.data.progress(range(options.epochs), "training")
    for _ in bar:
        total = 0.0
        for points, labels in loader:  # (batch, 2), (batch,)
            loss = F.cross_entropy(model(points), labels)
            optimizer.zero_grad()  # backward adds to .grad, so clear the last step's gradients
            loss.backward()
            optimizer.step()
            total += loss.item() * len(points)
        train_losses.append(total / len(train))
        test_loss, test_accuracy = evaluate(model, test)
        test_losses.append(test_loss)
        bar.note(loss=train_losses[-1], test_accuracy=test_accuracy)

    print(f"train loss {train_losses[-1]:.4f}, test loss {test_loss:.4f}")
    print(f"test accuracy {test_accuracy:.1%} of {len(test)} points it has never seen")
    draw(model, test, train_losses, test_losses, options.out)
    print(
        "\nNext:\n"
        "  --width 2       two bends are too few: the border becomes almost a straight line\n"
        "  --noise 0.4     the moons overlap, and no border can be right everywhere\n"
        "  --epochs 1000   train loss keeps falling while test loss rises: overfitting\n"
        "  examples/digits.py does the same with images and convolutions"
    )


def evaluate(model: nn.Module, dataset: gw.data.TensorDataset) -> tuple[float, float]:
    """Loss and accuracy on a whole dataset."""
    points, labels = dataset.tensors
    with gw.no_grad():  # records nothing, since there is no backward
        scores = model(points)  # (n, 2)
        accuracy = (scores.argmax(1) == labels).float().mean()
        return F.cross_entropy(scores, labels).item(), accuracy.item()


def draw(
    model: nn.Module,
    test: gw.data.TensorDataset,
    train_losses: list[float],
    test_losses: list[float],
    out: Path,
) -> None:
    """Save a picture: the network's prediction on the plane, and the losses."""
    try:
        from matplotlib.figure import Figure  # not pyplot, which looks for a screen
    except ImportError:
        print("No picture: matplotlib is missing. Get it: python -m pip install matplotlib")
        return
    points, labels = (tensor.cpu().numpy() for tensor in test.tensors)
    x, y = gw.meshgrid(gw.linspace(-1.8, 2.8, 200), gw.linspace(-1.4, 1.9, 150), indexing="xy")
    with gw.no_grad():
        scores = model(gw.stack([x.flatten(), y.flatten()], 1))  # (150 × 200, 2)
        belief = F.softmax(scores, 1)[:, 1].reshape(x.shape)  # (150, 200)
    x, y, belief = (tensor.cpu().numpy() for tensor in (x, y, belief))

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)
    plane, curves = figure.subplots(1, 2, width_ratios=[3, 2])
    # A light background, so that the points stay the strongest thing in the picture.
    shades = plane.pcolormesh(
        x,
        y,
        belief,
        cmap="bwr",
        vmin=0,
        vmax=1,
        alpha=0.35,
    )
    plane.contour(x, y, belief, levels=[0.5], colors="black")
    for moon, colour, marker in ((0, "#2166ac", "o"), (1, "#b2182b", "s")):
        chosen = points[labels == moon]
        plane.scatter(*chosen.T, s=18, c=colour, marker=marker, edgecolors="white", linewidths=0.5)
    plane.set(title="Test points, and the border the network drew", xlabel="x", ylabel="y")
    figure.colorbar(shades, ax=plane, label="probability of the lower moon", ticks=[0, 0.5, 1])

    epochs = range(1, len(train_losses) + 1)
    curves.plot(epochs, train_losses, label="train")
    curves.plot(epochs, test_losses, label="test")
    curves.set(title="Loss", xlabel="epoch", ylabel="cross-entropy")
    curves.set_ylim(bottom=0)
    curves.legend()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)
    print(f"picture: {out.resolve()}")


if __name__ == "__main__":
    main()
