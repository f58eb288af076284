"""What all tests share: real data for whoever has it, and the end of what they have started."""

import collections
import fcntl
import functools
import gc
import itertools
import os
import pathlib
import signal
import sys

import pytest

from tests.support.command_server import is_quickly_compiled, optimize_graphs
from tests.support.real_data import folder_of_real_data, why_missing
from tests.support.served_process import command_server

_ENDED_FILES = itertools.count(1)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Where REQUIRE_ORACLES is set (`make test-oracles`), a test that skips has failed."""
    del item, call
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("REQUIRE_ORACLES"):
        report.outcome = "failed"


def pytest_configure():
    """Let commands be interrupted, also if a shell runs the suite in the background; do not wait for disks.

    Tests kill processes, but no test cuts the power.
    """
    os.fsync = lambda descriptor: None
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        help="of each test with more cases than this one case in so many, others for the next test of its file",
    )


def _in_turn(items, one_in):
    """Yield one case in so many of each test; the next test of the same file takes the cases beside them."""
    seen, num_tests, offsets = collections.Counter(), collections.Counter(), {}
    for item in items:
        test = item.path, item.originalname
        if test not in offsets:
            offsets[test] = num_tests[item.path]
            num_tests[item.path] += 1
        if (seen[test] - offsets[test]) % one_in(item) == 0:
            yield item
        seen[test] += 1


@pytest.hookimpl(hookwrapper=True)  # around `-m`, which leaves cases out
def pytest_collection_modifyitems(config, items):
    """Take samples, and put files with many slow tests first.

    Those of a file stay together. In the end no worker waits for a long one.
    """
    is_named = any("::" in argument for argument in config.args)  # cases that somebody asks for all run
    samples = [] if is_named else [item for item in items if item.get_closest_marker("one_in")]
    marked = [item for item in samples if not item.get_closest_marker("release")]
    in_turn = set(_in_turn(marked, lambda item: item.get_closest_marker("one_in").args[0]))
    for item in set(marked) - in_turn:
        item.add_marker("release")
    yield
    sizes = collections.Counter((item.path, item.originalname) for item in items)
    one_in = config.getoption("sample")
    items[:] = _in_turn(items, lambda item: one_in if sizes[item.path, item.originalname] > one_in else 1)
    num_slow = collections.Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -num_slow[item.path])


def pytest_collection_finish():
    gc.freeze()  # collections of garbage need not look through what is imported and collected
    gc.set_threshold(60_000, 20, 20)  # graphs are many objects, and nearly all of them stay


@pytest.fixture(scope="module", autouse=True)
def graphs_are_let_go_of(request):
    """At the end of a file: else what Keras and TensorFlow keep of its graphs would come to gigabytes a worker.

    And each file draws the same numbers in each run, whatever ran before it. (Setting the seed before each test would
    make TensorFlow forget all of its kernels as often.) `make test` optimises the graphs of conformance tests alone.
    """
    has_graphs = "tensorflow" in sys.modules
    if has_graphs:
        optimize_graphs(not is_quickly_compiled() or request.path.parent.name == "conformance")
        from common.training.training_session import forget_gradients, registered_gradients

        sys.modules["tensorflow"].keras.utils.set_random_seed(0)
        before = registered_gradients()
    yield
    if has_graphs:
        sys.modules["tensorflow"].keras.backend.clear_session()
        forget_gradients(registered_gradients() - before)
        if next(_ENDED_FILES) % 20 == 0:
            gc.unfreeze()  # what stayed after earlier files may be garbage by now
        gc.collect()
        gc.freeze()  # runs of the next files collect garbage, and need not look through this


@pytest.fixture(scope="module")
def functions_run_eagerly():
    """For the tests of a file, each `tf.function` is plain Python: a short training costs its steps, not its graphs.

    For what a run does, not for what graphs are; a test has them back by `eagerly(False)`.
    """
    from tests.support.eager_functions import eagerly

    with eagerly(True):
        yield


def pytest_unconfigure():
    """The server of commands is waited for here: a worker of xdist leaves without Python's own finalisation."""
    if command_server.cache_info().currsize:
        command_server().close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A Chromium for all tests of this process that look at pages; they skip where there is none."""
    from tests.support.browser import Page, need_chromium

    with Page(need_chromium(), tmp_path_factory.mktemp("profile")) as page:
        yield page


def _found(name, is_there):
    folder = folder_of_real_data()
    if folder is None or not is_there(folder / name):
        pytest.skip(why_missing(name, folder))
    return str(folder / name)


@pytest.fixture(scope="session")
def filled_cache(tmp_path_factory):
    """For a name the cache folder that a loader has filled in whichever process of these tests is the first.

    Nobody may write there: a test that does, copies.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers

    def fill(name: str, load) -> pathlib.Path:
        with open(folder / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            load(cache_dir=folder / name)
        return folder / name

    return fill


@pytest.fixture(scope="session")
def drawn_glyphs(filled_cache):
    """For a size in pixels the cache folder with all glyphs."""

    def draw(size: int) -> pathlib.Path:
        from common.data.glyph_drawings import draw_glyphs  # here, for not every test needs TensorFlow

        return filled_cache(f"glyphs_{size}px", functools.partial(draw_glyphs, size))

    return draw


@pytest.fixture
def shared_data():
    """Path of one of the real data sets (DML_TEST_DATA); the test skips where it is not there."""
    return lambda name: _found(name, os.path.isdir)


@pytest.fixture
def shared_file():
    """Path of a file with real images (DML_TEST_DATA); the test skips where it is not there."""
    return lambda name: _found(name, os.path.isfile)
