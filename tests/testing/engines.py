"""Small models written once for both engines."""

import pytest
import torch

import gradwalk as gw

ENGINES = {"torch": torch, "gradwalk": gw}
both_engines = pytest.mark.parametrize("lib", ENGINES.values(), ids=ENGINES)


def model_of(lib, body, *layers, features=6):
    """Embed tokens or project features, apply `body(lib, hidden, *layers)`, then a head."""
    lib.manual_seed(0)

    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = lib.nn.Embedding(11, features)
            self.project = lib.nn.Linear(features, features)
            self.layers = lib.nn.ModuleList([make(lib) for make in layers])
            self.head = lib.nn.Linear(features, 11)

        def forward(self, x):
            hidden = self.project(x) if x.dtype == lib.float32 else self.embedding(x)
            return self.head(body(lib, hidden, *self.layers))

    return Model()


def tokens(lib, rows=3, length=7):
    lib.manual_seed(1)
    return lib.randint(0, 11, (rows, length))


def floats(lib, *shape):
    lib.manual_seed(2)
    return lib.randn(*(shape or (3, 7, 6)))
