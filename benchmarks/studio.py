"""The studio's server under real conditions: in its own process, over a real connection.

Fifty clients, with one thread and one persistent connection each, walk the diamond visit by visit:
every request is an expression with an order, which Python parses, computes and reports. Then one
client opens a transformer of about 2,000 operations and asks about it.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness import duration, play, size, table

CLIENTS = (1, 10, 50)
WALKS = 20  # of each client
BLOCKS = 70
SOURCE = "a = x*1; b = a + 1; c = 3*a; d = b*c"
ORDERS = [["d", "b", "c", "a"][:visits] for visits in range(5)]


class Server:
    """`gradwalk studio` in another process."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.place = parts.netloc
        self.session = parse_qs(parts.query).get("session", [""])[0]
        self.token = parse_qs(parts.fragment)["token"][0]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.place, timeout=120)

    def ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, value: Any = None
    ) -> tuple[float, bytes]:
        """The time of the answer, and the answer; any status except 200 is an error."""
        body = None if value is None else json.dumps(value)
        start = time.perf_counter()
        connection.request(method, path, body, {"X-Gradwalk-Token": self.token})
        answer = connection.getresponse()
        content = answer.read()
        seconds = time.perf_counter() - start
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {content[:200]!r}")
        return seconds, content


@contextmanager
def serving(*arguments: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "gradwalk", "studio", *arguments, "--port", "0"]
    with subprocess.Popen([*command, "--no-browser"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("gradwalk studio: "))
        yield Server(line.split(": ", 1)[1].strip())
        process.terminate()


# -- many clients ----------------------------------------------------------------------------------


def load(server: Server, clients: int) -> list[str]:
    times: list[float] = []
    errors: list[str] = []
    together = threading.Barrier(clients + 1)

    def client() -> None:
        connection = server.connect()
        together.wait()
        for walk in range(WALKS):
            question = {"source": SOURCE, "values": {"x": walk}, "order": ORDERS[walk % 5]}
            try:
                times.append(server.ask(connection, "POST", "/api/walk", question)[0])
            except (RuntimeError, OSError) as error:
                errors.append(str(error))
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    together.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    ranked = statistics.quantiles(times, n=100)
    return [
        str(clients),
        *(duration(ranked[percent - 1]) for percent in (50, 95, 99)),
        f"{len(times) / seconds:.0f}",
        str(len(errors)),
    ]


# -- a transformer ---------------------------------------------------------------------------------


def save_transformer(path: Path) -> int:
    """Record one training step; return its number of operations."""
    gw = import_module("gradwalk")
    nn = gw.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.heads = heads

        def forward(self, x: Any) -> Any:
            batch, time, width = x.shape
            split = (batch, time, self.heads, width // self.heads)
            y = self.norm1(x)
            asked = (self.query, self.key, self.value)
            q, k, v = (layer(y).reshape(split).transpose(1, 2) for layer in asked)
            weights = (q @ k.transpose(2, 3) / split[-1] ** 0.5).softmax(-1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    gw.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(50, 32), *(Block(32, 4) for _ in range(BLOCKS)), nn.Linear(32, 50)
    )
    tokens = gw.randint(0, 50, (2, 8))
    with gw.record() as trace:
        logits = model(tokens).reshape(-1, 50)
        nn.functional.cross_entropy(logits, tokens.reshape(-1)).backward()
    gw.save_trace(trace, path)
    return sum(1 for node in trace if node.op)


def transformer(folder: Path) -> tuple[str, list[list[str]]]:
    path = folder / "step.trace"
    count = save_transformer(path)
    begin = time.perf_counter()
    with serving(str(path)) as server:
        rows = [["start, read the file, serve", duration(time.perf_counter() - begin), ""]]
        connection = server.connect()
        one = f"/api/sessions/{server.session}"
        described = json.loads(server.ask(connection, "GET", f"{one}/trace")[1])
        node = next(i for i, n in enumerate(described["nodes"]) if n["op"] == "linear")
        name = described["nodes"][node]["values"][0]["array"]
        questions: list[tuple[str, str, str, Any]] = [
            ("the page", "GET", "/", None),
            ("the description", "GET", f"{one}/trace", None),
            ("a window of an array", "GET", f"{one}/arrays/{name}?rows=0:64&columns=0:64", None),
            ("health", "GET", f"{one}/health", None),
            ("why, the first layer", "POST", f"{one}/why", {"node": node}),
            ("an element of it", "POST", f"{one}/element", {"node": node, "element": [0, 0, 0]}),
        ]
        for title, method, address, value in questions:
            seconds, content = server.ask(connection, method, address, value)
            rows.append([title, duration(seconds), size(len(content))])
        connection.close()
    return f"A transformer of {count:,} operations, one client", rows


def report() -> None:
    with serving() as server:
        load(server, 5)  # so that everything is imported
        rows = [load(server, clients) for clients in CLIENTS]
    heads = ["clients", "median", "95 %", "99 %", "per second", "errors"]
    table("Walks of an expression (POST api/walk)", heads, rows)
    with tempfile.TemporaryDirectory() as folder:
        title, asked = transformer(Path(folder))
    table(title, ["", "time", "size"], asked)


if __name__ == "__main__":
    play({}, report)
