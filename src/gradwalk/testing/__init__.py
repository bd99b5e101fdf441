"""For users' tests: asserts about a model of gradwalk or of PyTorch, silent if it is healthy.

`assert_healthy` looks at gradients. The others compare runs of the model that must agree:
`assert_causal` and `assert_rows_independent` change inputs and watch outputs, `assert_accumulates`
divides a batch, `assert_deterministic` runs twice, `assert_gradients_match` runs two models;
`assert_all_parameters_learn` and `assert_overfits_one_batch` train for a few steps. A failure is an
AssertionError that names module, operation and line, and a change to try. All of them leave the
model as it was: parameters, buffers, `.grad`s, modes and random generators.
"""

from gradwalk.testing.accumulates import assert_accumulates
from gradwalk.testing.closeness import assert_close
from gradwalk.testing.deterministic import assert_deterministic
from gradwalk.testing.healthy import assert_healthy
from gradwalk.testing.independence import assert_causal, assert_rows_independent
from gradwalk.testing.learning import assert_all_parameters_learn, assert_overfits_one_batch
from gradwalk.testing.matching import assert_gradients_match

__all__ = [
    "assert_accumulates",
    "assert_all_parameters_learn",
    "assert_causal",
    "assert_close",
    "assert_deterministic",
    "assert_gradients_match",
    "assert_healthy",
    "assert_overfits_one_batch",
    "assert_rows_independent",
]
