"""PyTorch's first name of `gradwalk.hub`."""

from gradwalk.hub import load_state_dict_from_url as load_state_dict_from_url
from gradwalk.hub import load_url as load_url

__all__ = ["load_state_dict_from_url", "load_url"]
