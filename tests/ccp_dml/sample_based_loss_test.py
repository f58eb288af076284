import numpy as np
import pytest
import tensorflow as tf

from ccp_dml import AlternatingProjections, ClassPools, ProximalTerm, SampleBasedLoss
from common.data import Examples, NoAugmentation
from common.losses import ContrastiveLoss
from common.pooling import GlobalAveragePooling
from common.references import References
from common.training import EmbeddingHead, EmbeddingModel, ProxyRateOptimizer

keras = tf.keras
CLASSES, SAMPLES, DIM = 3, 2, 4
LABELS = np.repeat(np.arange(CLASSES), 4)
IMAGES = np.random.default_rng(0).integers(0, 255, (12, 5, 5, 1)).astype(np.uint8)


class Trained:
    """A model with a sample-based loss and everything around it."""

    def __init__(self, in_batch_weight=0.0):
        keras.utils.set_random_seed(1)
        layers = [keras.Input((5, 5, 1)), keras.layers.Rescaling(1 / 64), keras.layers.Conv2D(6, 3, activation="relu")]
        self.backbone = keras.Sequential(layers)
        self.head = EmbeddingHead(GlobalAveragePooling(), DIM)
        self.base = ContrastiveLoss(0.0, 1.5, normalization="clip")
        self.loss = SampleBasedLoss(
            self.base, self.embed, self.inputs_of, CLASSES, SAMPLES, IMAGES.shape[1:], in_batch_weight
        )
        self.model = EmbeddingModel(self.backbone, self.head, self.loss, normalization="clip")
        self.model.build_from_batch(IMAGES, LABELS)
        self.pools = ClassPools(self.model.embed, Examples(LABELS, IMAGES), NoAugmentation(), 4, SAMPLES, seed=0)
        self.term = ProximalTerm([*self.backbone.trainable_variables, *self.head.trainable_variables])
        self.projections = AlternatingProjections(self.loss, self.term, self.pools)
        self.projections.set_model(self.model)

    def embed(self, inputs, training):
        return self.head(self.backbone(inputs, training=training), training=training)["embeddings"]

    def inputs_of(self, problem, positions):
        return IMAGES[self.pools.examples_at(problem, positions)]


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_equals_the_loss_over_the_embeddings_of_the_samples_and_has_its_gradient(weight):
    trained = Trained(weight)
    trained.projections.on_train_begin()
    samples = np.array(trained.loss.samples)
    assert {tuple(sample.ravel()) for sample in samples} <= {tuple(image.ravel()) for image in IMAGES}

    def expected():
        embeddings = trained.model.outputs_of(IMAGES)["embeddings"]
        anchors = trained.model.outputs_of(samples)["embeddings"]
        sample_term = trained.base(embeddings, LABELS, References(anchors, np.repeat(np.arange(CLASSES), SAMPLES)))
        return sample_term + weight * trained.base(embeddings, LABELS)

    variables = trained.model.trainable_variables
    assert len(variables) == 3  # samples are not trained
    with tf.GradientTape(persistent=True) as tape:
        found, wanted = trained.model.training_loss(IMAGES, LABELS), expected()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for one, other in zip(tape.gradient(found, variables), tape.gradient(wanted, variables)):
        assert np.any(one)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_samples_are_embedded_as_the_batch_is():
    modes = []

    def embed(inputs, training):
        modes.append(training)
        return tf.cast(inputs, tf.float32)

    loss = SampleBasedLoss(ContrastiveLoss(), embed, lambda problem, positions: None, CLASSES, SAMPLES, (DIM,))
    for training in (True, False):
        loss(np.ones((3, DIM)), np.arange(3), training=training)
    assert modes == [True, False]


def test_the_next_problem_takes_other_samples_of_the_right_classes():
    trained = Trained()
    trained.projections.on_train_begin()
    first = np.array(trained.loss.samples)
    embeddings = trained.model.embed([first.astype(np.float32)]).reshape(CLASSES, SAMPLES, DIM)
    np.testing.assert_allclose(trained.loss.representatives(), embeddings, rtol=1e-6)
    trained.projections.params = {"epochs": 99}
    trained.model.stop_training = False
    for epoch in range(4):
        trained.projections.on_epoch_end(epoch, {"MAP@R": 0.5})
    second = np.array(trained.loss.samples)
    by_pixels = {tuple(image.ravel().astype(float)): label for image, label in zip(IMAGES, LABELS)}
    for samples in (first, second):
        labels = [by_pixels[tuple(sample.ravel().astype(float))] for sample in samples]
        assert labels == np.repeat(np.arange(CLASSES), SAMPLES).tolist()
    assert np.any(first != second)


def test_trains_in_a_graph_and_is_saved_with_the_model():
    trained = Trained()
    trained.projections.on_train_begin()
    trained.model.compile_training(ProxyRateOptimizer(keras.optimizers.SGD(0.05)), [trained.term])
    batches = tf.data.Dataset.from_tensors((IMAGES.astype(np.float32), LABELS)).repeat()
    before = trained.model.training_loss(IMAGES, LABELS)
    trained.model.fit(batches, epochs=2, steps_per_epoch=5, shuffle=False, verbose=0)
    assert trained.model.training_loss(IMAGES, LABELS) < before
    other = Trained()
    other.model.set_weights(trained.model.get_weights())
    np.testing.assert_array_equal(np.array(other.loss.samples), np.array(trained.loss.samples))
