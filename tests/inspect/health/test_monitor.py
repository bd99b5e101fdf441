"""Monitor compares the updates of a step with those of the steps before it."""

import pytest
import torch

import gradwalk as gw


def test_an_update_that_jumps_is_told_from_one_that_was_always_large() -> None:
    """The learning rate grows a thousandfold; the twin keeps it."""
    for rate in (1e-3, 1.0):
        gw.manual_seed(0)
        model = gw.nn.Sequential(gw.nn.Linear(8, 16), gw.nn.Tanh(), gw.nn.Linear(16, 4))
        optimizer = gw.optim.Adam(model.parameters(), lr=1e-3)
        with gw.Monitor(model, optimizer, every=2) as monitor:
            for step in range(21):
                optimizer.param_groups[0]["lr"] = 1e-3 if step < 20 else rate
                optimizer.zero_grad()
                model(gw.randn(16, 8)).square().mean().backward()
                optimizer.step()
        found = [finding for finding in monitor.findings if finding.kind == "update"]
        assert bool(found) == (rate == 1.0)
        if found:
            assert "times the usual update" in found[0].message
            assert "from 0.001 to 1" in found[0].change


def test_a_model_of_pytorch_is_refused_with_what_to_use_instead():
    with pytest.raises(TypeError, match="LayerNumbers"):
        gw.Monitor(torch.nn.Linear(2, 1))
