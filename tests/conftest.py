"""What all tests share: real data beside the repository for whoever has it, and the end of what they have started."""

import os

import pytest

from tests.served_process import command_server

_REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Where REQUIRE_ORACLES is set (`make test-oracles`), a test that skips has failed."""
    del item, call
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("REQUIRE_ORACLES"):
        report.outcome = "failed"


def pytest_unconfigure():
    """The server of commands is waited for here: a worker of xdist leaves without Python's own finalisation."""
    if command_server.cache_info().currsize:
        command_server().close()


def _found(name, is_there):
    path = os.path.join(_REPOSITORY, "..", "shared", "data", name)
    if not is_there(path):
        pytest.skip(f"no real images at ../shared/data/{name}")
    return path


@pytest.fixture
def shared_data():
    """Path of one of the real data sets beside the repository; the test skips where it is not there."""
    return lambda name: _found(name, os.path.isdir)


@pytest.fixture
def shared_file():
    """Path of a file with real images beside the repository; the test skips where it is not there."""
    return lambda name: _found(name, os.path.isfile)
