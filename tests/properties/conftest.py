"""The profile of the property-based tests: the same examples in every run, so that CI fails only when the code does.

Each test states its number of examples (`max_examples`).
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "deterministic",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("deterministic")
