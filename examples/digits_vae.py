"""Digits from noise: a variational autoencoder learns to draw them.

    python examples/digits_vae.py

An encoder compresses each image into a small cloud around two numbers; a decoder draws the image
again from any point of the cloud. Because the clouds must fill the plane without gaps, every point
of the plane becomes a drawing.
"""

import argparse
from pathlib import Path

import gradwalk as gw
from gradwalk import nn
from gradwalk.nn import functional as F


class VAE(nn.Module):
    """64 pixels to a cloud in `latent` dimensions, and from a point back to 64 pixels."""

    def __init__(self, latent: int, hidden: int = 256) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(64, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 2 * latent),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 64),
        )  # fmt: skip

    def encode(self, x: gw.Tensor) -> tuple[gw.Tensor, gw.Tensor]:
        """The clouds' centres and the logarithms of their variances, each (batch, latent)."""
        mean, log_variance = self.encoder(x.flatten(1)).chunk(2, dim=1)
        return mean, log_variance

    def forward(self, x: gw.Tensor) -> tuple[gw.Tensor, gw.Tensor, gw.Tensor]:
        mean, log_variance = self.encode(x)
        # A random draw cannot be differentiated, but centre + width × noise can: with respect to
        # centre and width, with the noise as a constant.
        z = mean + (0.5 * log_variance).exp() * gw.randn_like(mean)  # (batch, latent)
        return self.decoder(z), mean, log_variance


def losses_of(model: VAE, images: gw.Tensor, beta: float) -> tuple[gw.Tensor, gw.Tensor]:
    """Per image: the reconstruction loss, and its cloud's distance from the standard normal."""
    drawn, mean, log_variance = model(images)
    n = len(images)
    # A pixel's grey value is the probability that it is black.
    drawing = F.binary_cross_entropy_with_logits(drawn, images.flatten(1), reduction="sum") / n
    distance = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum() / n
    return drawing, beta * distance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=200, help="times through the data")
    parser.add_argument("--latent", type=int, default=2, help="numbers per image")
    parser.add_argument("--beta", type=float, default=1.0, help="weight of the clouds' shape")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where it computes: cpu, cuda, tpu or xla")
    parser.add_argument("--out", type=Path, default=Path("digits_vae.png"), help="the picture")
    parser.add_argument("--quick", action="store_true", help="a tiny run, to see that it works")
    options = parser.parse_args()
    gw.set_default_device(options.device)
    if options.quick:
        options.epochs = 3

    gw.set_num_threads(1)  # several threads are slower on small arrays
    gw.manual_seed(options.seed)
    train, test = gw.data.digits("train"), gw.data.digits("test")
    loader = gw.data.DataLoader(train, batch_size=64, shuffle=True)
    model = VAE(options.latent)
    optimizer = gw.optim.Adam(model.parameters(), lr=2e-3)
    schedule = gw.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
    bar = gw.data.progress(range(options.epochs), "training")
    for _ in bar:
        for images, _ in loader:  # the labels are not used
            drawing, distance = losses_of(model, images, options.beta)
            optimizer.zero_grad()
            (drawing + distance).backward()
            optimizer.step()
        schedule.step()
        bar.note(drawing=drawing.item(), distance=distance.item())

    with gw.no_grad():
        for name, part in (("train", train), ("test", test)):
            drawing, distance = losses_of(model, part.tensors[0], options.beta)
            total = (drawing + distance).item()
            print(f"{name:5}  loss {total:.2f} = drawing {drawing.item():.2f}", end="")
            print(f" + clouds {distance.item():.2f}")
    draw(model, test, options.latent, options.out)
    print(
        "\nNext:\n"
        "  --latent 16   sharper copies, although most of the 16 numbers stay unused\n"
        "  --beta 0.05   clouds shrink and spread: sharper copies, and gaps between the digits\n"
        "  --beta 10     all clouds become the same, and so do the drawings\n"
        "  examples/oscillator.py needs no data at all"
    )


@gw.no_grad()
def draw(model: VAE, test: gw.data.TensorDataset, latent: int, out: Path) -> None:
    """Save a picture: test images and their copies, where they lie, and drawings from noise."""
    try:
        from matplotlib.figure import Figure  # not pyplot, which looks for a screen
    except ImportError:
        print("No picture: matplotlib is missing. Get it: python -m pip install matplotlib")
        return
    images, labels = test.tensors
    means, _ = model.encode(images)  # (360, latent)

    def tiled(drawings: gw.Tensor, rows: int):
        """(rows × columns, 64) as one large image with a white line between the small ones."""
        squares = F.pad(drawings.reshape(rows, -1, 8, 8), (1, 1, 1, 1))  # (rows, columns, 10, 10)
        return squares.permute(0, 2, 1, 3).reshape(rows * 10, -1).cpu().numpy()

    figure = Figure(figsize=(14, 4.8), layout="constrained")
    figure.get_layout_engine().set(wspace=0.05)
    copies, plane, drawings = figure.subplots(1, 3, width_ratios=[1, 1.15, 1])
    # Three of each digit: the image, its copy to the right, and a gap.
    chosen = gw.stack([(labels == digit).nonzero()[:3, 0] for digit in range(10)])  # (10, 3)
    copied = model.decoder(means[chosen]).sigmoid()  # (10, 3, 64)
    gap = gw.zeros_like(copied)
    pairs = gw.stack([images[chosen].flatten(2), copied, gap], 2)  # (10, 3, 3, 64)
    copies.imshow(tiled(pairs.reshape(90, 64), rows=10)[:, :-10], cmap="gray_r")
    copies.set_title("Unseen digits, each with its copy")

    dots = plane.scatter(
        *means[:, :2].cpu().numpy().T,
        c=labels.cpu().numpy(),
        cmap="tab10",
        vmin=-0.5,
        vmax=9.5,
        s=14,
    )
    figure.colorbar(dots, ax=plane, ticks=range(10), label="digit (never told to the network)")
    plane.set(title="Where the encoder puts them", xlabel="first number", ylabel="second number")

    if latent == 2:
        # Equal steps of probability, so that unlikely points do not fill the picture.
        steps = gw.erfinv(gw.linspace(-0.95, 0.95, 12)) * 2**0.5
        y, x = gw.meshgrid(-steps, steps, indexing="ij")  # y grows upwards, as in the plane
        z = gw.stack([x.flatten(), y.flatten()], 1)  # (144, 2)
        drawings.set_title("What the decoder draws there")
    else:
        z = gw.randn(144, latent)
        drawings.set_title("Drawn from noise")
    drawings.imshow(tiled(model.decoder(z).sigmoid(), rows=12), cmap="gray_r")
    for axes in (copies, drawings):
        axes.set(xticks=[], yticks=[])
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    print(f"picture: {out.resolve()}")


if __name__ == "__main__":
    main()
