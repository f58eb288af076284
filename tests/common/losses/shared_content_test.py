"""A toy in which the training classes differ by one half of the input, and the test classes by the other.

The discriminative task throws away the half that the test needs; a task within classes keeps it.
"""

import numpy as np
import pytest
import tensorflow as tf

from common.losses import MarginLoss, MinedLoss, TripletLoss, feature_tasks_loss
from common.ops.normalization import normalize_groups
from common.retrieval import evaluate_retrieval

keras = tf.keras
HALF, CLASSES, PER_CLASS, STYLES, STEPS = 4, 10, 4, 8, 400
CHANCE = 1 / STYLES


def points(contents, styles, rng):
    """`[n, 2 · HALF]`: a content and a style side by side, with noise."""
    both = np.concatenate([contents, styles], axis=1)
    return (both + 0.1 * rng.normal(size=both.shape)).astype(np.float32)


def train(loss, sizes, seed):
    """Recall at 1 on test classes, and the share of the last slice's squared weights that lies on styles."""
    rng = np.random.default_rng(seed)
    codes, labels = rng.normal(size=(CLASSES, HALF)), np.repeat(np.arange(CLASSES), PER_CLASS)
    kernel = tf.Variable((0.3 * rng.normal(size=(2 * HALF, sum(sizes)))).astype(np.float32))
    optimizer = keras.optimizers.Adam(0.02)
    optimizer.build([kernel])  # boundaries stay: learnt as fast, they follow the distances

    @tf.function(autograph=False)
    def step(inputs):
        with tf.GradientTape() as tape:
            value = loss(tf.matmul(inputs, kernel), labels, training=True)
        optimizer.apply_gradients([(tape.gradient(value, kernel), kernel)])

    for _ in range(STEPS):
        step(tf.constant(points(codes[labels], rng.normal(size=(len(labels), HALF)), rng)))
    test_labels = np.repeat(np.arange(STYLES), 30)
    test = points(rng.normal(size=(len(test_labels), HALF)), rng.normal(size=(STYLES, HALF))[test_labels], rng)
    embeddings = normalize_groups(tf.constant(test @ kernel.numpy()), "unit", sizes).numpy()
    last = kernel.numpy()[:, -sizes[-1] :] ** 2
    return evaluate_retrieval(embeddings, test_labels).precision_at_1, last[HALF:].sum() / last.sum()


def disc():
    return MinedLoss(MarginLoss(), "distance_weighted", seed=1)


def with_task(miner):
    task = {"intra_class": "intra", "inter_class": "shared"}[miner]
    return feature_tasks_loss(disc(), {task: MinedLoss(MarginLoss(), miner, seed=2)}, (4, 4))


def mean_of_seeds(make, sizes):
    """Means over three seeds of what `train` gives."""
    return np.mean([train(make(), sizes, seed) for seed in range(3)], axis=0)


@pytest.mark.slow
def test_a_task_within_classes_keeps_what_the_discriminative_task_throws_away():
    small, large = mean_of_seeds(disc, (4,))[0], mean_of_seeds(disc, (8,))[0]
    intra, on_styles = mean_of_seeds(lambda: with_task("intra_class"), (4, 4))
    shared = mean_of_seeds(lambda: with_task("inter_class"), (4, 4))[0]
    collapsed, on_styles_of_triplets = mean_of_seeds(lambda: MinedLoss(TripletLoss(0.2), "intra_class", seed=2), (4,))
    assert intra > large > small
    assert shared > small
    assert on_styles > 0.5
    assert on_styles_of_triplets < 0.1
    assert collapsed < CHANCE + 0.05
