import gc
import json
import pathlib
import shutil
import weakref

import numpy as np
import pytest

from common.data import EvaluationInputs, evaluation_batches
from common.data.evaluation_inputs import MEGABYTE, decoded_bytes
from common.errors import InvalidInput
from experiments.recipes import resolve
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.places import Places
from experiments.settings.splits import split_of
from tests.experiments.tiny_study import TinyStudy

SIZE = 32
SETTINGS = {
    "num_folds": 2,
    "embedding_dim": 8,
    "image_size": SIZE,
    "backbone": "resnet10",
    "weights": "none",
    "frozen_batch_norm": False,
    "classes_per_batch": 4,
    "samples_per_class": 2,
    "warm_up_epochs": 0,
    "warm_up_steps": 0,
    "steps_per_evaluation": 2,
    "max_steps": 4,
    "patience": 9,
}
pytestmark = pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")


def with_data(inputs, dataset):
    inputs.dataset = dataset
    return inputs


@pytest.fixture
def inputs(tmp_path):
    study = TinyStudy(tmp_path)
    return with_data(build.build_inputs(study.config("c2", "gap"), study.dataset), study.dataset)


@pytest.fixture(scope="module")
def dataset(image_folder):
    return build.load_dataset("folder", str(image_folder), None, 0)


@pytest.fixture
def photographs(dataset, tmp_path):
    """What makes inputs with a budget in bytes, of prepared copies that a test may delete."""
    config = configuration()
    prepared = build.prepare_dataset(dataset, config, str(tmp_path / "cache"))

    def with_budget(num_bytes):
        return with_data(build.build_inputs(config, prepared, num_bytes / MEGABYTE), prepared)

    return with_budget


def configuration(loss="c2", pooling="gap", **overrides):
    return resolve("folder", loss, pooling, "thesis", "smoke", {**SETTINGS, **overrides})


def read(batches):
    return np.concatenate([batch.numpy() for batch in batches])


def delete(examples):
    for path in examples.paths:
        pathlib.Path(path).unlink()


def size_of(examples):
    return len(examples) * SIZE * SIZE * 3


def test_the_same_examples_have_one_pipeline_that_can_be_read_again(inputs):
    examples = inputs.dataset.test
    batches = inputs(examples)
    first, second = read(batches), read(inputs(examples))
    assert inputs(examples) is batches
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, read(evaluation_batches(examples, inputs.preprocessing, inputs.batch_size)))


def test_other_examples_have_their_own(inputs):
    test = inputs.dataset.test
    halves = [inputs(test.subset(np.arange(start, start + 8))) for start in (0, 8)]  # not kept by the caller
    np.testing.assert_array_equal(np.concatenate([read(half) for half in halves]), read(inputs(test))[:16])


def test_arrays_in_memory_are_not_kept_a_second_time(inputs):
    inputs = with_data(EvaluationInputs(inputs.preprocessing, inputs.batch_size, 512), inputs.dataset)
    examples = inputs.dataset.test
    batches = inputs(examples)
    assert decoded_bytes(examples, batches) is None
    assert inputs.repeated(examples) is batches


def test_repeated_images_are_decoded_once_and_are_the_same_bits(photographs):
    inputs = photographs(10 * MEGABYTE)
    examples = inputs.dataset.test
    expected = read(evaluation_batches(examples, inputs.preprocessing, inputs.batch_size))
    batches = inputs.repeated(examples)
    assert expected.dtype == np.uint8
    assert decoded_bytes(examples, batches) == size_of(examples) == expected.nbytes
    np.testing.assert_array_equal(read(batches), expected)
    delete(examples)
    for again in (batches, inputs.repeated(examples), inputs(examples)):
        np.testing.assert_array_equal(read(again), expected)


def test_a_reading_that_is_broken_off_changes_no_later_one(photographs, monkeypatch):
    monkeypatch.setattr(build, "evaluation_batch_size", lambda config: 4)
    inputs = photographs(10 * MEGABYTE)
    examples = inputs.dataset.test
    next(iter(inputs.repeated(examples)))
    expected = read(evaluation_batches(examples, inputs.preprocessing, inputs.batch_size))
    for _ in range(2):
        np.testing.assert_array_equal(read(inputs.repeated(examples)), expected)


def test_the_budget_is_of_all_examples_together(photographs):
    examples = photographs(0).dataset.test
    first, second = (examples.subset(np.arange(start, start + 12)) for start in (0, 12))
    inputs = photographs(size_of(first) + size_of(second) - 1)
    expected = [read(inputs.repeated(part)) for part in (first, second, first)]
    delete(first)
    np.testing.assert_array_equal(read(inputs.repeated(first)), expected[0])
    np.testing.assert_array_equal(read(inputs.repeated(second)), expected[1])
    delete(second)
    with pytest.raises(Exception, match="No such file"):
        read(inputs.repeated(second))


@pytest.mark.parametrize("budget", [0, -1])
def test_no_budget_keeps_nothing_and_a_negative_one_is_refused(photographs, budget):
    if budget < 0:
        with pytest.raises(InvalidInput, match="decoded_images_mb"):
            photographs(budget)
        return
    inputs = photographs(budget)
    assert inputs.repeated(inputs.dataset.test) is inputs(inputs.dataset.test)


def test_released_inputs_are_let_go(photographs):
    inputs = photographs(10 * MEGABYTE)
    batches = inputs.repeated(inputs.dataset.test)
    read(batches)
    alive = weakref.ref(batches)
    del batches
    inputs.release()
    gc.collect()
    assert alive() is None


def files_of(folder):
    """What a unit leaves, without its times."""
    result = json.loads((folder / "result.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    left = [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
    left += [{name: result[name] for name in ("validation", "test", "untrained", "config_hash", "steps")}]
    arrays = np.load(folder / "test_embeddings.npz")
    return left, {name: arrays[name].tobytes() for name in arrays.files}


@pytest.fixture
def kept(monkeypatch):
    """Weak references to all inputs that are asked for repeatedly."""
    found, repeated = [], EvaluationInputs.repeated

    def noted(inputs, examples):
        batches = repeated(inputs, examples)
        found.append(weakref.ref(batches))
        return batches

    monkeypatch.setattr(EvaluationInputs, "repeated", noted)
    return found


def test_a_unit_has_the_same_bits_with_any_budget_and_frees_it_in_the_end(dataset, tmp_path, kept):
    """Once a budget is there, validation images that are deleted after the first validation are not missed."""
    config, cache = configuration(pooling="gsp", num_prototypes=4, gsp_memory_size=16), str(tmp_path / "cache")
    left = []
    for budget in (0, 1):
        runs = UnitRuns(dataset, Places(str(tmp_path / f"runs{budget}"), cache, decoded_images_mb=budget))
        queries = split_of(build.prepare_dataset(dataset, config, cache), config, 0, 0).queries

        def watch(step, metrics, queries=queries, budget=budget):
            if step == config.steps_per_evaluation and budget:
                delete(queries)

        runs.train(config, 0, 0, checkpoint_seconds=0, watch=watch)
        left.append(files_of(runs.unit_dir(config, 0, 0)))
        shutil.rmtree(runs.runs_dir)
        gc.collect()
        assert kept
        assert not any(each() for each in kept)
    assert left[0] == left[1]
