"""Which of the collected tests run on this stack, and in which order."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.stack_independence import ROOT, is_independent

TESTS = ROOT / "tests"
# Front ends, and the reading of sources. The TensorFlow of these tests is that of units, protocols, deployment,
# the evaluation commands and the library, whose own tests run on either stack.
FRONT_ENDS = (
    *("benchmarks/faults_test.py", "benchmarks/features_test.py", "benchmarks/index_test.py"),
    *("benchmarks/input_pipeline_test.py", "benchmarks/losses_test.py", "benchmarks/mutation_test.py"),
    *("benchmarks/retrieval_scaling_test.py", "benchmarks/retrieval_test.py", "benchmarks/training_step_test.py"),
    *("common/index", "contributing_test.py", "experiments/preparation/data_sets_test.py"),
    *(f"experiments/{room}" for room in ("blocks", "evidence", "launch", "photo_page", "photo_search", "reports")),
    *(f"experiments/{room}" for room in ("site", "studies", "tuning")),
    *("experiments/export_test.py", "experiments/installed_package_test.py", "experiments/launched_fair_eval_test.py"),
    *("experiments/mnist_study_test.py", "experiments/named_flags_test.py", "experiments/plugin_test.py"),
    *("experiments/report_test.py", "experiments/small_photographs_test.py", "experiments/startup_test.py"),
    *("experiments/studies_test.py", "experiments/tracking_test.py", "architecture_test.py", "served_process_test.py"),
    # Units of features and of transformers: their losses, callbacks, networks, cuts and exact resume are the library's
    # and tested there on either stack, as other units are.
    *(f"experiments/{file}_test.py" for file in ("feature_commands", "units/feature_runs", "units/transformer_runs")),
)
# What holds of formulas for drawn batches: the tests of each loss and pooling have their numbers on either stack.
FORMULAS = ("properties", "common/pooling/pooling_properties_test.py")
ONE_STACK = "default_stack"  # a marker of tests that run on the default stack alone


def slow_files_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Files by their number of slow tests, those of a file together: in the end no worker waits for a long one."""
    num_slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    return sorted(items, key=lambda item: -num_slow[item.path])


def split_by_stack(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Tests that may depend on the stack, and those that mean the same on either or that one stack is enough for."""
    independent = [
        item
        for item in items
        if needs_one_stack(item.path)
        or item.get_closest_marker(ONE_STACK)
        or is_independent(item.path, fixture_files(item))
    ]
    left_out = set(independent)
    return [item for item in items if item not in left_out], independent


def needs_one_stack(path: pathlib.Path) -> bool:
    """Whether a file is one of `FRONT_ENDS` or `FORMULAS`, or in one of their folders."""
    return any(path == TESTS / place or TESTS / place in path.parents for place in (*FRONT_ENDS, *FORMULAS))


def fixture_files(item: pytest.Item) -> tuple[pathlib.Path, ...]:
    """Other files of tests whose fixtures a test uses; not `tests/conftest.py`, which hands out folders."""
    definitions = item._fixtureinfo.name2fixturedefs.values()
    files = {pathlib.Path(definition[-1].func.__code__.co_filename) for definition in definitions}
    return tuple(sorted(file for file in files if TESTS in file.parents and file != TESTS / "conftest.py"))
