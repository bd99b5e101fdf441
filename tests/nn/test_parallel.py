"""Wrappers for several devices: on one they call the model."""

import pytest

import gradwalk as gw


@pytest.mark.parametrize("wrapper", ["DataParallel", "DistributedDataParallel"])
def test_a_wrapped_model_is_called_and_has_pytorchs_names(wrapper: str) -> None:
    model = gw.nn.Linear(2, 3)
    wrapped = getattr(gw.nn.parallel, wrapper)(model, device_ids=[0])
    x = gw.ones(4, 2)
    assert wrapped(x).tolist() == model(x).tolist()
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    with pytest.raises(ValueError, match="Mesh"):
        getattr(gw.nn.parallel, wrapper)(model, device_ids=[0, 1])


def test_data_parallel_is_a_call() -> None:
    model = gw.nn.Linear(2, 3)
    assert gw.nn.parallel.data_parallel(model, gw.ones(2)).tolist() == model(gw.ones(2)).tolist()


def test_scatter_gives_all_to_one_device() -> None:
    assert gw.nn.parallel.scatter_gather.scatter((1, 2), [0]) == [(1, 2)]
    with pytest.raises(ValueError, match="Mesh"):
        gw.nn.parallel.scatter((1, 2), [0, 1])
