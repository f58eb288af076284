import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from common.losses import CodingRateLoss, KoLeoLoss
from common.references import References
from milbich_dml import DecorrelationLoss, ViewLoss
from tests.conformance.loss_table import DIM, LOSSES, NUM_CLASSES
from tests.conformance.losses_test import skip_if_drawn

NUM_EXAMPLES = 12  # of each test and loss
SMALLEST = 1e-30  # the gradient of v/|v| is of the size 1/|v|, which float32 cannot hold for much smaller ones
COMPONENTS = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 2.0**-40, 300.0]),
    st.floats(-3.0, 3.0, width=32).map(lambda value: value if abs(value) > SMALLEST else 0.0),
)


@st.composite
def batches(draw, max_size=7):
    size = draw(st.integers(1, max_size))
    embeddings = draw(arrays.arrays(np.float32, (size, DIM), elements=COMPONENTS))
    repeated = draw(st.lists(st.integers(0, size - 1), min_size=size, max_size=size))
    if draw(st.booleans()):
        embeddings = embeddings[repeated]
    labels = draw(arrays.arrays(np.int64, size, elements=st.integers(0, NUM_CLASSES - 1)))
    return embeddings, labels


def can_be_negative(loss):
    return (
        isinstance(loss, (CodingRateLoss, DecorrelationLoss, KoLeoLoss))
        or getattr(loss, "denominator", "") == "negatives"
    )


@pytest.fixture(params=list(LOSSES), scope="module")
def loss(request):
    """A loss with proxies that do not change from run to run."""
    made = LOSSES[request.param](dtype="float64")
    if isinstance(made, ViewLoss):
        pytest.skip("of batches of an even size")
    for position, variable in enumerate(made.trainable_variables):
        variable.assign(np.random.default_rng(position).normal(size=variable.shape))
    return made


@pytest.mark.slow
@pytest.mark.one_in(6)
@settings(max_examples=NUM_EXAMPLES)
@given(batch=batches())
def test_value_is_finite_and_not_negative_and_so_is_the_gradient(loss, batch):
    embeddings, labels = tf.constant(batch[0]), tf.constant(batch[1])
    with tf.GradientTape() as tape:
        tape.watch(embeddings)
        value = loss(embeddings, labels)
    assert np.isfinite(value)
    assert value >= -1e-9 or can_be_negative(loss)
    gradient = tape.gradient(value, embeddings)
    assert gradient is None or np.all(np.isfinite(gradient))


@pytest.mark.slow
@pytest.mark.one_in(6)
@settings(max_examples=NUM_EXAMPLES)
@given(batch=batches(), references=batches(), ignored=batches())
def test_references_that_are_not_valid_do_not_matter(loss, batch, references, ignored):
    skip_if_drawn(loss)
    both = [np.concatenate(parts) for parts in zip(references, ignored)]
    valid = np.arange(len(both[1])) < len(references[1])
    expected = References(*references)
    if "semi_hard" in str(getattr(loss, "mining", "")):
        # Which references are farther than a coincident one hangs on rounding, and rounding on the number of columns.
        zeros = np.concatenate([references[0], np.zeros_like(ignored[0])])
        expected = References(zeros, both[1], valid)
    np.testing.assert_allclose(loss(*batch, References(*both, valid)), loss(*batch, expected), rtol=1e-6, atol=1e-9)
