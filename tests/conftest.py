"""What every test shares: one thread for array libraries, and hypothesis settings."""

import os

# Before numpy or torch is imported: both read this once, when they load. One thread each, because
# the tests already run one process per core and the arrays are small.
os.environ["OMP_NUM_THREADS"] = "1"

from hypothesis import HealthCheck, settings

settings.register_profile(
    "gradwalk",
    deadline=None,
    derandomize="CI" in os.environ,  # a submission is judged on its change, not on its luck
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is not a failure
)
settings.load_profile("gradwalk")
