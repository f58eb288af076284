"""Fixtures of recorded studies."""

from tests.experiments.conftest import recorded, tiny, tiny_rows  # noqa: F401
