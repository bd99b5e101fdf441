"""Handwritten digits: a small convolutional network reads them, and shows where it fails.

    python examples/digits.py

1797 images of 8 × 8 pixels come with gradwalk. Every fifth is held out for testing; the settings
below were not chosen by the test result.
"""

import argparse
from pathlib import Path

import gradwalk as gw
from gradwalk import nn
from gradwalk.nn import functional as F


def convolutional_network() -> nn.Module:
    """(batch, 1, 8, 8) to (batch, 10): one score per digit."""

    def convolution(channels: int, out: int) -> nn.Module:
        # The norm has its own shift, so the convolution needs no bias.
        return nn.Sequential(
            nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
        )

    return nn.Sequential(
        convolution(1, 16),  # (batch, 16, 8, 8)
        convolution(16, 32),  # (batch, 32, 8, 8)
        nn.MaxPool2d(2),  # (batch, 32, 4, 4)
        convolution(32, 64),  # (batch, 64, 4, 4)
        nn.Flatten(),  # (batch, 1024)
        nn.Dropout(0.3),
        nn.Linear(1024, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15, help="times through the data")
    parser.add_argument("--images", type=int, default=1437, help="number of training images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where it computes: cpu, cuda, tpu or xla")
    parser.add_argument("--out", type=Path, default=Path("digits.png"), help="the picture")
    parser.add_argument("--quick", action="store_true", help="a tiny run, to see that it works")
    options = parser.parse_args()
    gw.set_default_device(options.device)
    if options.quick:
        options.epochs, options.images = 2, 300

    gw.set_num_threads(1)  # several threads are slower on small arrays
    gw.manual_seed(options.seed)
    train = gw.data.TensorDataset(*gw.data.digits("train")[: options.images])
    test_images, test_labels = gw.data.digits("test").tensors  # (360, 1, 8, 8), (360,)
    loader = gw.data.DataLoader(train, batch_size=64, shuffle=True)

    model = convolutional_network()
    optimizer = gw.optim.AdamW(model.parameters())
    # The learning rate rises, then falls to almost zero: fast at first, settled at the end.
    schedule = gw.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.005, epochs=options.epochs, steps_per_epoch=len(loader)
    )

    losses, accuracies = [], []
    bar = gw.data.progress(range(options.epochs), "training")
    for _ in bar:
        model.train()  # dropout is on, and the norms use the batch
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        model.eval()  # dropout is off, and the norms use their running statistics
        with gw.no_grad():
            scores = model(test_images)  # (360, 10)
        accuracies.append((scores.argmax(1) == test_labels).float().mean().item())
        bar.note(loss=losses[-1], test_accuracy=accuracies[-1])

    wrong = int((scores.argmax(1) != test_labels).sum())
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(train)} images")
    print(f"test accuracy {accuracies[-1]:.2%} ({wrong} of {len(test_labels)} wrong)")
    draw(test_images, test_labels, scores, losses, accuracies, options.out)
    print(
        "\nNext:\n"
        "  --images 100   ten images of each digit already give more than 80 %\n"
        "  --epochs 1     shows the curve while it still climbs\n"
        "  examples/digits_vae.py draws new digits instead of reading them\n"
        "  examples/characters.py is the same loop around a Transformer"
    )


def draw(
    images: gw.Tensor,
    labels: gw.Tensor,
    scores: gw.Tensor,
    losses: list[float],
    accuracies: list[float],
    out: Path,
) -> None:
    """Save a picture: the training curves, the confusion matrix, and the hardest images."""
    try:
        from matplotlib.figure import Figure  # not pyplot, which looks for a screen
    except ImportError:
        print("No picture: matplotlib is missing. Get it: python -m pip install matplotlib")
        return
    figure = Figure(figsize=(13, 4.6), layout="constrained")
    curves, table, gallery = figure.subfigures(1, 3, width_ratios=[6, 5, 5], wspace=0.04)

    left = curves.subplots()
    left.plot(losses, color="tab:blue", linewidth=1)
    left.set(title="Learning", xlabel="step", yscale="log")
    left.set_ylabel("training loss", color="tab:blue")
    right = left.twinx()
    ends = [(i + 1) * len(losses) / len(accuracies) for i in range(len(accuracies))]
    percent = [100 * accuracy for accuracy in accuracies]
    right.plot(ends, percent, "o-", color="tab:orange", markersize=4)
    right.set_ylabel("test accuracy in %", color="tab:orange")

    answers = scores.argmax(1)  # (360,)
    counts = gw.zeros(10, 10, dtype=gw.int64)
    for label, answer in zip(labels.tolist(), answers.tolist()):
        counts[label, answer] += 1
    axes = table.subplots()
    # Only the mistakes are shaded: one wrong answer would be invisible beside 36 right ones.
    mistakes = counts * (1 - gw.eye(10, dtype=gw.int64))
    axes.imshow(mistakes.cpu().numpy(), cmap="Reds", vmin=0, vmax=3 + 1.5 * mistakes.max().item())
    for label in range(10):
        for answer in range(10):
            if n := int(counts[label, answer]):
                axes.text(answer, label, str(n), ha="center", va="center", fontsize=8)
    axes.set(title="What it takes for what", xlabel="answer", ylabel="true digit")
    axes.set(xticks=range(10), yticks=range(10))

    belief = F.softmax(scores, 1)  # (360, 10)
    hardest = belief[gw.arange(len(labels)), labels].argsort()[:9]
    gallery.suptitle("The nine it finds hardest")
    for axes, i in zip(gallery.subplots(3, 3).flat, hardest.tolist()):
        axes.imshow(images[i, 0].cpu().numpy(), cmap="gray_r", vmin=0, vmax=1)
        axes.axis("off")
        label, answer = labels[i].item(), answers[i].item()
        text = f"{label}, read as {answer}" if answer != label else f"{label}, right"
        text += f"\n{belief[i, answer].item():.0%} sure"
        axes.set_title(text, fontsize=9, color="black" if answer == label else "tab:red")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    print(f"picture: {out.resolve()}")


if __name__ == "__main__":
    main()
