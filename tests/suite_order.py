"""Which of the collected tests run on this stack, and in which order."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.stack_independence import ROOT, is_independent

TESTS = ROOT / "tests"


def slow_files_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Files by their number of slow tests, those of a file together: in the end no worker waits for a long one."""
    num_slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    return sorted(items, key=lambda item: -num_slow[item.path])


def split_by_stack(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Tests that may depend on the stack, and those that mean the same on either."""
    independent = [item for item in items if is_independent(item.path, fixture_files(item))]
    left_out = set(independent)
    return [item for item in items if item not in left_out], independent


def fixture_files(item: pytest.Item) -> tuple[pathlib.Path, ...]:
    """Other files of tests whose fixtures a test uses; not `tests/conftest.py`, which hands out folders."""
    definitions = item._fixtureinfo.name2fixturedefs.values()
    files = {pathlib.Path(definition[-1].func.__code__.co_filename) for definition in definitions}
    return tuple(sorted(file for file in files if TESTS in file.parents and file != TESTS / "conftest.py"))
