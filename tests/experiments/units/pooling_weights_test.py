import numpy as np
import pytest

from experiments.units.pooling_weights import EvaluationInputs, image_batches
from tests.experiments.tiny_study import TinyStudy


@pytest.fixture
def inputs(tmp_path):
    study = TinyStudy(tmp_path)
    return EvaluationInputs(study.config("c2", "gap"), study.dataset)


def read(batches):
    return np.concatenate([batch.numpy() for batch in batches])


def test_the_same_examples_have_one_pipeline_that_can_be_read_again(inputs):
    examples = inputs.dataset.test
    batches = inputs(examples)
    first, second = read(batches), read(inputs(examples))
    assert inputs(examples) is batches
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, read(image_batches(examples, inputs.config, inputs.dataset)))


def test_other_examples_have_their_own(inputs):
    test = inputs.dataset.test
    halves = [inputs(test.subset(np.arange(start, start + 8))) for start in (0, 8)]  # not kept by the caller
    np.testing.assert_array_equal(np.concatenate([read(half) for half in halves]), read(inputs(test))[:16])
