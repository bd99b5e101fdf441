"""A very small GPT learns to write, one character at a time.

    python examples/characters.py                   # reads "Alice's Adventures in Wonderland"
    python examples/characters.py --text my.txt     # or your own text
    python examples/characters.py --resume          # continues exactly where Ctrl-C stopped it

It has the parts of large language models: embeddings, causal attention, residual blocks. The last
tenth of the text is held out for validation.
"""

import argparse
import math
from itertools import chain, repeat
from pathlib import Path

import gradwalk as gw
from gradwalk import nn
from gradwalk.nn import functional as F

LENGTH, WIDTH, HEADS, LAYERS = 64, 64, 4, 2  # it looks back at most LENGTH characters


class Block(nn.Module):
    """Attention gathers information from earlier characters; the wide layers process it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def attend(self, x: gw.Tensor) -> gw.Tensor:
        batch, time, _ = x.shape
        query, key, value = (
            part.view(batch, time, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.query_key_value(x).split(WIDTH, dim=2)
        )  # each (batch, heads, time, width / heads)
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project(out.transpose(1, 2).reshape(batch, time, WIDTH))

    def forward(self, x: gw.Tensor) -> gw.Tensor:
        x = x + self.attend(self.norm1(x))  # a residual connection: gradients flow past attention
        return x + self.think(self.norm2(x))


class GPT(nn.Module):
    """(batch, time) characters to (batch, time, vocabulary) scores of the next character."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.character = nn.Embedding(vocabulary, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.05)

    def forward(self, characters: gw.Tensor) -> gw.Tensor:
        positions = gw.arange(characters.shape[1])  # (time,)
        x = self.character(characters) + self.position(positions)  # (batch, time, width)
        return self.head(self.norm(self.blocks(x)))


@gw.no_grad()
def write(model: GPT, text: gw.data.Characters, start: str, count: int, heat: float) -> str:
    """Continue `start` by `count` characters; less heat favours the likely ones."""
    written = text.encode(start).unsqueeze(0)  # (1, time)
    for _ in range(count):
        scores = model(written[:, -LENGTH:])[:, -1] / heat  # (1, vocabulary)
        following = gw.multinomial(F.softmax(scores, 1), 1)  # (1, 1)
        written = gw.cat([written, following], 1)
    return text.decode(written[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=Path(__file__).with_name("alice.txt"))
    parser.add_argument("--steps", type=int, default=2000, help="batches to train on, in all")
    parser.add_argument("--heat", type=float, default=0.7, help="how daring the sample is")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    parser.add_argument("--checkpoint", type=Path, default=Path("characters.safetensors"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where it computes: cpu, cuda, tpu or xla")
    parser.add_argument("--out", type=Path, default=Path("characters.png"), help="the picture")
    parser.add_argument("--quick", action="store_true", help="a tiny run, to see that it works")
    options = parser.parse_args()
    gw.set_default_device(options.device)
    if options.quick:
        options.steps = 20
    every = min(100, max(1, options.steps // 2))  # steps between two validations

    gw.set_num_threads(1)  # several threads are slower on small arrays
    gw.manual_seed(options.seed)
    for needed in [options.text] + [options.checkpoint] * options.resume:
        if not needed.is_file():
            parser.error(f"there is no file {needed}")
    text = options.text.read_text(encoding="utf-8")
    vocabulary = "".join(sorted(set(text)))
    cut = len(text) * 9 // 10
    train = gw.data.characters(text[:cut], LENGTH, vocabulary)
    valid = gw.data.characters(text[cut:], LENGTH, vocabulary)
    places = range(0, len(valid), max(1, len(valid) // 64))
    valid_batch = gw.data.default_collate([valid[i] for i in places])  # two of (64, time)
    loader = gw.data.DataLoader(train, batch_size=16, shuffle=True)

    model = GPT(len(vocabulary))
    optimizer = gw.optim.AdamW(model.parameters(), lr=0.006, betas=(0.9, 0.99), weight_decay=0.1)

    def rate(step: int) -> float:  # a short warm-up, then half a cosine down to a hundredth
        warm = min(1.0, (step + 1) / 100)
        return warm * (0.01 + 0.99 * (0.5 + 0.5 * math.cos(math.pi * step / options.steps)))

    schedule = gw.optim.lr_scheduler.LambdaLR(optimizer, rate)
    parts = dict(model=model, optimizer=optimizer, schedule=schedule, loader=loader)
    losses: list[float] = []  # of every step
    valid_losses: list[list[float]] = []  # [step, loss]
    if options.resume:
        saved = gw.load_run(options.checkpoint, **parts)  # restores the random state as well
        losses, valid_losses = saved["losses"], saved["valid_losses"]
        print(f"continuing after step {len(losses)}")

    def loss_of(x: gw.Tensor, y: gw.Tensor) -> gw.Tensor:  # (batch, time), shifted by one
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    batches = chain.from_iterable(repeat(loader))  # one epoch after the other
    bar = gw.data.progress(range(len(losses), options.steps), "training")
    try:
        for step in bar:
            loss = loss_of(*next(batches))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            if (step + 1) % every == 0 or step + 1 == options.steps:
                with gw.no_grad():
                    valid_losses.append([step + 1, loss_of(*valid_batch).item()])
                bar.note(loss=losses[-1], validation=valid_losses[-1][1])
                gw.save_run(options.checkpoint, **parts, losses=losses, valid_losses=valid_losses)
    except KeyboardInterrupt:
        print(f"\nStopped in step {len(losses) + 1}. ", end="")
        print("Continue with --resume" if valid_losses else "Nothing was saved yet.")
        raise SystemExit(130) from None  # the shell's status of an interrupted program

    average = sum(losses[-every:]) / len(losses[-every:])
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(text)} characters")
    print(f"loss {average:.3f} in training, {valid_losses[-1][1]:.3f} on the held-out tenth")
    print(f"(uniform guessing: {math.log(len(vocabulary)):.3f})")
    print(f"checkpoint: {options.checkpoint.resolve()}")
    sample = write(model, train, text[0], 30 if options.quick else 500, options.heat)
    print(f"\n--- a sample ---\n{sample}\n--- its end ---\n")
    draw(losses, valid_losses, math.log(len(vocabulary)), options.out)
    print(
        "\nNext:\n"
        "  --resume --heat 0.2     no more training; it writes only what it is surest of\n"
        f"  --resume --steps {2 * options.steps}   train twice as long, from here on\n"
        "  LENGTH = 8 in the file  it forgets how the sentence began\n"
        "  WIDTH = 128, LAYERS = 4 it writes better, and takes minutes\n"
        "  examples/sequence.py    the same idea with numbers, and a memory instead of attention"
    )


def draw(losses: list[float], valid_losses: list[list[float]], blind: float, out: Path) -> None:
    """Save a picture of both losses."""
    try:
        from matplotlib.figure import Figure  # not pyplot, which looks for a screen
    except ImportError:
        print("No picture: matplotlib is missing. Get it: python -m pip install matplotlib")
        return
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(1, len(losses) + 1), losses, color="0.75", linewidth=1, label="one batch")
    window = max(1, len(losses) // 40)
    ends = range(window, len(losses) + 1, window)
    smooth = [sum(losses[end - window : end]) / window for end in ends]
    axes.plot(ends, smooth, color="tab:blue", label=f"train, mean of {window}")
    axes.plot(*zip(*valid_losses), "o-", color="tab:orange", markersize=4, label="validation")
    axes.axhline(blind, color="0.5", linestyle="--", linewidth=1, label="uniform guessing")
    axes.set(title="A small GPT learns to write", xlabel="step", ylabel="nats per character")
    axes.legend()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)
    print(f"picture: {out.resolve()}")


if __name__ == "__main__":
    main()
