"""Where tests find MLflow's server, and a port at which nobody answers."""

from __future__ import annotations

import importlib.util
import socket

import pytest

needs_server = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None or importlib.util.find_spec("flask") is None,
    reason="MLflow's server is not installed (pip install '.[mlflow-server]')",
)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
