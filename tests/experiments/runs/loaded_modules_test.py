import gc
import weakref

import pytest

from experiments.runs.loaded_modules import spare_loaded_modules


class Node:
    """Something that only a collection can free, for it refers to itself."""

    def __init__(self):
        self.own = self


@pytest.fixture
def spared():
    spare_loaded_modules.cache_clear()
    spare_loaded_modules()
    yield
    gc.unfreeze()
    spare_loaded_modules.cache_clear()


def test_what_exists_is_left_out_of_collections(spared):
    assert gc.get_freeze_count() > 10_000


def test_it_happens_once_in_a_process(spared):
    count = gc.get_freeze_count()
    kept = [Node() for _ in range(1000)]
    spare_loaded_modules()
    assert gc.get_freeze_count() <= count < count + len(kept)


def test_what_comes_later_is_still_collected(spared):
    node = weakref.ref(Node())
    gc.collect()
    assert node() is None


def test_garbage_is_collected_before():
    spare_loaded_modules.cache_clear()
    node = weakref.ref(Node())
    spare_loaded_modules()
    gc.unfreeze()
    assert node() is None
