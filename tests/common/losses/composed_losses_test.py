"""Losses made of losses, and what all losses do with labels."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from common.errors import InvalidInput
from common.losses import (
    ComponentLoss,
    ContrastiveLoss,
    CrossBatchMemoryLoss,
    MarginLoss,
    MatryoshkaLoss,
    MinedLoss,
    MultiSimilarityLoss,
    ProxyNCALoss,
    TripletLoss,
    WeightedSumLoss,
    class_ids,
    loss_of_kind,
)
from common.losses.composed_loss import LossAround, LossOfParts
from common.references import References
from tests.support.eager_functions import eagerly


@keras.utils.register_keras_serializable(package="composed_loss_test")
class Doubled(LossAround):
    def call(self, embeddings, labels, references=None, training=None):
        return 2.0 * self.loss(embeddings, labels, references)


@keras.utils.register_keras_serializable(package="composed_loss_test")
class Last(LossOfParts):
    def call(self, embeddings, labels, references=None, training=None):
        return self.parts[-1](embeddings, labels, references)


def test_a_loss_around_another_normalizes_as_that_one_says_and_parts_share_that_or_have_none():
    clip, unit = ContrastiveLoss(normalization="clip"), TripletLoss()
    assert Doubled(clip).normalization == "clip"
    assert Doubled(clip, normalization="none").normalization == "none"
    assert Last([clip, ContrastiveLoss(normalization="clip")]).normalization == "clip"
    assert Last([clip, unit]).normalization == "none"


def test_proxies_are_those_of_what_is_called():
    margin = MarginLoss(num_classes=4)
    assert margin.proxy_variables
    for loss in (Doubled(margin), Last([TripletLoss(), margin])):
        assert [id(variable) for variable in loss.proxy_variables] == [id(x) for x in margin.proxy_variables]
        assert margin.weights[0] is loss.weights[0]


@pytest.mark.parametrize("losses", [(), TripletLoss(), ["triplet"], None])
def test_parts_are_losses(losses):
    with pytest.raises(InvalidInput, match="Invalid losses: received .*, expected a list of at least one metric loss"):
        Last(losses)


def test_a_loss_is_found_in_what_is_made_of_it():
    first, second = MarginLoss(), MarginLoss()
    loss = Last([TripletLoss(), Doubled(Last([first, second]))])
    assert loss_of_kind(loss, MarginLoss) is first
    assert loss_of_kind(loss, Last) is loss
    assert loss_of_kind(loss, ContrastiveLoss) is None


def test_is_the_weighted_sum_of_its_parts(case):
    parts = [ContrastiveLoss(normalization=case.normalization), MultiSimilarityLoss(normalization=case.normalization)]
    expected = 0.7 * case(parts[0]) + 0.2 * case(parts[1])
    np.testing.assert_allclose(case(WeightedSumLoss(parts, [0.7, 0.2])), expected, rtol=1e-12)
    np.testing.assert_allclose(case(WeightedSumLoss(parts)), case(parts[0]) + case(parts[1]), rtol=1e-12)


BATCH, DIM = 12, 7


def random_batch(seed=0, size=BATCH):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(size, DIM)), np.arange(size) % 4


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    "make", [TripletLoss, MarginLoss, MultiSimilarityLoss, lambda: MinedLoss(MarginLoss(), "inter_class", 0.3)]
)
def test_is_the_loss_of_the_slices(make, given):
    embeddings, labels = random_batch()
    references = References(*random_batch(1, 9), np.arange(9) != 3) if given else None
    cut = references and references._replace(embeddings=references.embeddings[:, 2:6])
    value = ComponentLoss(make(), 2, 4)(embeddings, labels, references)
    assert float(value) == float(make()(embeddings[:, 2:6], labels, cut))
    assert float(value) != float(make()(embeddings, labels, references))


@pytest.mark.parametrize("as_graph", [False, True])
def test_training_reaches_a_memory_in_a_sum(as_graph):
    memory_loss = CrossBatchMemoryLoss(MinedLoss(TripletLoss()), BATCH, 4, start_step=0)
    total = WeightedSumLoss([ComponentLoss(memory_loss, 0, 4), ComponentLoss(TripletLoss(), 4, 3)])
    batch = random_batch()
    step = tf.function(lambda: total(*batch, training=True), autograph=False)
    with eagerly(not as_graph):
        step()
    total(*batch)
    assert int(memory_loss.step) == 1
    assert int(memory_loss.loss.step) == 2  # once for the batch, once for the memory
    np.testing.assert_allclose(memory_loss.memory.embeddings, batch[0][:, :4], rtol=1e-6)


@pytest.mark.parametrize("given", [False, True])
def test_is_the_weighted_sum_of_the_losses_of_prefixes(given):
    embeddings, labels = random_batch()
    references = References(*random_batch(1, 9), np.arange(9) != 3) if given else None
    parts = [TripletLoss(dtype="float64"), ContrastiveLoss(dtype="float64"), TripletLoss(dtype="float64")]
    expected = 0.0
    for weight, part, length in zip((1.0, 0.5, 2.0), parts, (2, 3, DIM)):
        cut = references and references._replace(embeddings=references.embeddings[:, :length])
        expected += weight * float(part(embeddings[:, :length], labels, cut))
    loss = MatryoshkaLoss(parts, [2, 3, DIM], [1.0, 0.5, 2.0], dtype="float64")
    assert float(loss(embeddings, labels, references)) == pytest.approx(expected, rel=1e-12)


def test_one_memory_serves_all_lengths_and_proxies_are_of_each():
    loss = CrossBatchMemoryLoss(MatryoshkaLoss([TripletLoss(), TripletLoss()], [2, DIM]), BATCH, DIM, start_step=0)
    assert loss.normalization == "unit"
    first, second = random_batch(1), random_batch(2)
    loss(*first, training=True)
    value = float(loss(*second))
    expected = [TripletLoss()(second[0][:, :m], second[1], *rest(m, first)) for m in (2, DIM) for rest in (_none, _of)]
    assert value == pytest.approx(float(sum(expected)), rel=1e-5)
    proxies = MatryoshkaLoss([ProxyNCALoss(4, 2), ProxyNCALoss(4, DIM)], [2, DIM]).proxy_variables
    assert [tuple(each.shape) for each in proxies] == [(4, 2), (4, DIM)]


def _none(length, batch):
    return ()


def _of(length, batch):
    return (References(batch[0][:, :length], batch[1]),)


@pytest.mark.parametrize("lengths", [[2], [2, 2], [0, 2], [3, 2]])
def test_lengths_that_do_not_increase_or_fit_are_refused(lengths):
    with pytest.raises(InvalidInput, match="Invalid lengths.*expected 2 increasing numbers of components"):
        MatryoshkaLoss([TripletLoss(), TripletLoss()], lengths)
    with pytest.raises(InvalidInput, match="dimension of embeddings: received 7, expected at least 8"):
        MatryoshkaLoss([TripletLoss(), TripletLoss()], [2, 8])(*random_batch())


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_ids_of_any_type_and_both_shapes(dtype):
    for labels in (np.array([0, 7, 200], dtype), np.array([[0], [7], [200]], dtype)):
        ids, are_exact = class_ids(labels)
        assert ids.dtype == tf.int64
        assert ids.numpy().tolist() == [0, 7, 200]
        assert are_exact


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 11), ("bfloat16", 8), ("float32", 24), ("float64", 53)])
def test_floats_up_to_where_whole_numbers_are_exact(dtype, bits):
    assert class_ids(tf.cast([2**bits - 1], dtype))[0].numpy().tolist() == [2**bits - 1]
    for label in (2**bits, -(2**bits)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"whole and below 2\^{bits}, for they are {dtype}"):
            class_ids(tf.cast([1, label], dtype))


@pytest.mark.parametrize("label", [0.5, np.nan, np.inf])
def test_floats_that_are_no_ids(label):
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected class ids that are whole"):
        class_ids(np.array([1.0, label], np.float32))


def test_xla_says_what_it_cannot_stop():
    ids_of = tf.function(class_ids, jit_compile=True)
    assert not ids_of(tf.constant([1.0, 0.5]))[1]
    assert ids_of(tf.constant([1.0, 2.0]))[1]
