import numpy as np
import pytest
import tensorflow as tf

from common.losses import (
    ContrastiveLoss,
    CosineContrastiveLoss,
    CrossBatchMemoryLoss,
    MarginLoss,
    MinedLoss,
    MultiSimilarityLoss,
    QuadrupletLoss,
    SignalToNoiseLoss,
    TripletLoss,
)
from common.losses.mined_loss import MINERS
from common.miners import rho_regularized
from common.references import References
from tests.support.samples import sampled

BATCH, DIM = 24, 6
DRAWING = [name for name in MINERS if name != "multi_similarity"]


def random_batch(seed=0, size=BATCH):
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(size, DIM))
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True), np.arange(size) % 6


def triplets_of(loss, embeddings, labels, references=None):
    """What the loss is about to draw."""
    seed = tf.constant([loss.seed, int(loss.step)], tf.int64)
    triplets = MINERS[loss.miner](tf.constant(embeddings, tf.float32), labels, seed, references)
    first_self = 0 if references is None else len(references.labels)
    triplets = rho_regularized(triplets, loss.rho_probability, seed, len(labels), first_self)
    return list(zip(*(part.numpy() for part in triplets)))


@sampled("rho_probability, given, miner", [0.0, 0.5, 1.0], [False, True], DRAWING)
def test_equals_loops_over_the_triplets(loops, miner, given, rho_probability):
    embeddings, labels = random_batch()
    references = References(*random_batch(1, 30), np.arange(30) != 3) if given else None
    loss = MinedLoss(TripletLoss(0.3), miner, rho_probability, seed=5)
    others = embeddings if references is None else np.concatenate([references.embeddings, embeddings])
    terms = [
        loops.distance(embeddings[a], others[p]) - loops.distance(embeddings[a], others[n]) + 0.3
        for a, p, n in triplets_of(loss, embeddings, labels, references)
    ]
    assert len(terms) > 10
    np.testing.assert_allclose(loss(embeddings, labels, references), loops.mean_of_nonzero(terms), rtol=1e-5)


@pytest.mark.parametrize("given", [False, True])
def test_multi_similarity_of_its_hard_pairs_equals_the_papers_algorithm(given):
    """Largest relative error in float64: 2.2e-16."""
    embeddings, labels = random_batch()
    valid = np.arange(30) != 3
    others, other_labels = random_batch(1, 30) if given else (embeddings, labels)
    loss = MinedLoss(MultiSimilarityLoss(2.0, 3.0, 0.5, dtype="float64"), "multi_similarity", dtype="float64")
    terms, num_pairs = [], 0
    for place, (anchor, label) in enumerate(zip(embeddings, labels)):
        cosines = others @ anchor
        partners = valid if given else np.arange(BATCH) != place
        near, far = cosines[partners & (other_labels == label)], cosines[partners & (other_labels != label)]
        hard_near, hard_far = near[near < far.max() + 0.1], far[far > near.min() - 0.1]
        num_pairs += len(hard_near) + len(hard_far)
        pull = np.log(1 + np.sum(np.exp(-2 * (hard_near - 0.5)))) / 2
        terms.append(pull + np.log(1 + np.sum(np.exp(3 * (hard_far - 0.5)))) / 3)
    assert BATCH < num_pairs < BATCH * (len(others) - 1)
    value = loss(embeddings, labels, References(others, other_labels, valid) if given else None)
    np.testing.assert_allclose(value, np.mean(terms), rtol=1e-12)


@pytest.mark.parametrize("normalization", ["none", "clip"])
def test_tuples_are_mined_among_vectors_as_the_loss_normalises_them(loops, normalization):
    embeddings, labels = random_batch()
    embeddings = embeddings * np.random.default_rng(3).uniform(0.2, 3.0, (BATCH, 1))
    loss = MinedLoss(TripletLoss(0.3, normalization=normalization), "soft_hard")
    points = np.array([loops.normalized(v, normalization) for v in embeddings])
    triplets = triplets_of(loss, points, labels)
    assert triplets != triplets_of(loss, np.array([loops.normalized(v, "unit") for v in embeddings]), labels)
    terms = [loops.distance(points[a], points[p]) - loops.distance(points[a], points[n]) + 0.3 for a, p, n in triplets]
    np.testing.assert_allclose(loss(embeddings, labels), loops.mean_of_nonzero(terms), rtol=1e-5)


def test_margin_and_contrastive_see_one_positive_and_one_negative_an_anchor(loops):
    embeddings, labels = random_batch()
    margin, contrastive = (
        MinedLoss(loss, rho_probability=0.4, seed=2) for loss in (MarginLoss(), ContrastiveLoss(0.0, 1.5))
    )
    triplets = triplets_of(margin, embeddings, labels)
    near = [loops.distance(embeddings[a], embeddings[p]) for a, p, _ in triplets]
    far = [loops.distance(embeddings[a], embeddings[n]) for a, _, n in triplets]
    terms = [max(0.0, d - 1.2 + 0.2) for d in near] + [max(0.0, 1.2 - d + 0.2) for d in far]
    np.testing.assert_allclose(margin(embeddings, labels), loops.mean_of_nonzero(terms), rtol=1e-5)
    pushes = loops.mean_of_nonzero(max(0.0, 1.5 - d) for d in far)
    np.testing.assert_allclose(contrastive(embeddings, labels), loops.mean_of_nonzero(near) + pushes, rtol=1e-5)


TUPLE_LOSSES = [
    CosineContrastiveLoss(),
    MarginLoss(),
    MultiSimilarityLoss(),
    QuadrupletLoss(1.0, 1.0),
    SignalToNoiseLoss("triplet", margin=1.0),
    TripletLoss(1.0),
]


@pytest.mark.parametrize("loss", TUPLE_LOSSES, ids=lambda loss: type(loss).__name__)
def test_a_switched_positive_is_pushed_away(loss):
    """With p = 1 the only force on a pair of one class is away from each other."""
    embeddings, labels = np.array([[1.0, 0.0, 0.1], [0.9, 0.3, -0.2], [0.1, 1.0, 0.3]]), np.array([0, 0, 1])
    points = tf.constant(embeddings)
    with tf.GradientTape() as tape:
        tape.watch(points)
        value = MinedLoss(loss, "random", rho_probability=1.0)(points, labels)
    gradient = tape.gradient(value, points).numpy()
    assert np.any(gradient != 0)
    np.testing.assert_allclose(gradient[2], 0.0, atol=0.01)  # of no triplet; SNR's mean penalty apart
    assert np.sum((embeddings[0] - embeddings[1]) * (gradient[0] - gradient[1])) < 0


def test_each_training_step_draws_anew_and_a_restored_one_goes_on(tmp_path):
    embeddings, labels = random_batch()
    loss = MinedLoss(TripletLoss(0.3), "random", seed=1)
    values = [float(loss(embeddings, labels, training=True)) for _ in range(3)]
    assert len(set(values)) == 3
    assert float(loss(embeddings, labels)) == float(loss(embeddings, labels))
    path = tf.train.Checkpoint(loss=loss).save(str(tmp_path / "checkpoint"))
    restored = MinedLoss(TripletLoss(0.3), "random", seed=1)
    tf.train.Checkpoint(loss=restored).restore(path).assert_existing_objects_matched()
    assert float(restored(embeddings, labels)) == float(loss(embeddings, labels))
    assert float(MinedLoss(TripletLoss(0.3), "random", seed=2)(embeddings, labels)) != values[0]


def test_draws_by_the_batch_need_no_counter_and_differ_from_batch_to_batch():
    loss, batches = MinedLoss(TripletLoss(0.3), "random", draws_by="batch"), [random_batch(seed) for seed in range(3)]
    assert not loss.weights
    drawn = []
    loss.loss.call = lambda embeddings, labels, references=None: drawn.append(references.pairs) or tf.zeros([])
    for embeddings, labels in [*batches, batches[0], (batches[0][0][::-1].copy(), batches[0][1])]:
        loss(embeddings, labels, training=True)
    positives = [pairs.positive.numpy().tobytes() for pairs in drawn]
    assert positives[3] == positives[0]
    assert len(set(positives)) == 4
    assert type(loss).from_config(loss.get_config()).draws_by == "batch"


def test_a_memory_around_a_mined_loss_draws_from_the_memory():
    embeddings, labels = random_batch()
    inner = MinedLoss(MarginLoss(), rho_probability=0.3)
    loss = CrossBatchMemoryLoss(inner, 2 * BATCH, DIM, start_step=0)
    for seed in (1, 2):
        loss(*random_batch(seed), training=True)
    in_batch, total = inner(embeddings, labels), loss(embeddings, labels)
    np.testing.assert_allclose(total, in_batch + inner(embeddings, labels, loss.memory.references()), rtol=1e-6)
    assert loss.proxy_variables == inner.loss.proxy_variables
