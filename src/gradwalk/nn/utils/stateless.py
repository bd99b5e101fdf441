"""`gradwalk.func.functional_call` where PyTorch had it first."""

from gradwalk.nn.functional_call import functional_call as functional_call

__all__ = ["functional_call"]
