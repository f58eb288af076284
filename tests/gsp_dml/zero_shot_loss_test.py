import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from gsp_dml.zero_shot_loss import ZeroShotPredictionLoss

LABELS = np.array([4, 4, 1, 1, 1, 7, 0, 0, 7, 4])  # halves by first appearance: {4, 7} and {1, 0}


def random_attributes(batch=10, prototypes=6, seed=0):
    attributes = np.random.default_rng(seed).random((batch, prototypes))
    return attributes / attributes.sum(axis=1, keepdims=True)


def primal_loss(attributes, labels, embeddings, halves, ridge, scale, reduction):
    """Equation 5.2.4 in NumPy, with the normal equations of (P3) in their primal form."""
    terms = []
    for fitted, other in (halves, halves[::-1]):
        z, v = attributes[fitted].T, embeddings[labels[fitted]].T
        regression = v @ z.T @ np.linalg.inv(z @ z.T + ridge * np.eye(len(z)))
        logits = scale * (embeddings @ regression @ attributes[other].T).T
        terms.append(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(other)), labels[other]])
    return sum(term.mean() for term in terms) if reduction == "sum_of_means" else np.concatenate(terms).mean()


@pytest.mark.parametrize("reduction", ["sum_of_means", "mean"])
@pytest.mark.parametrize(
    ("halves", "indices"),
    [
        ("classes", ([0, 1, 5, 8, 9], [2, 3, 4, 6, 7])),
        ("even_odd", ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])),
    ],
)
def test_the_loss_equals_its_primal_form(halves, indices, reduction):
    loss = ZeroShotPredictionLoss(
        8, 5, ridge=0.03, logit_scale=2.5, reduction=reduction, halves=halves, dtype="float64"
    )
    attributes = random_attributes()
    embeddings = np.asarray(loss.get_weights()[0], np.float64)
    expected = primal_loss(attributes, LABELS, embeddings, indices, 0.03, 2.5, reduction)
    np.testing.assert_allclose(loss(attributes, LABELS), expected, rtol=1e-10)


@pytest.mark.parametrize(("halves", "count"), [("classes", 8), ("even_odd", 9)])
def test_halves_of_different_sizes_have_their_own_means(halves, count):
    loss = ZeroShotPredictionLoss(8, 5, ridge=0.03, logit_scale=2.5, halves=halves, dtype="float64")
    attributes, labels = random_attributes(count), LABELS[:count]
    indices = ([0, 1, 5], [2, 3, 4, 6, 7]) if halves == "classes" else (range(0, count, 2), range(1, count, 2))
    embeddings = np.asarray(loss.get_weights()[0], np.float64)
    expected = primal_loss(attributes, labels, embeddings, [list(half) for half in indices], 0.03, 2.5, "sum_of_means")
    np.testing.assert_allclose(loss(attributes, labels), expected, rtol=1e-10)


def test_the_gradient_agrees_with_central_differences():
    loss = ZeroShotPredictionLoss(8, 3, logit_scale=3.0, dtype="float64")
    attributes = tf.constant(random_attributes(prototypes=4))
    theoretical, numerical = tf.test.compute_gradient(lambda z: loss(z, LABELS), [attributes], delta=1e-5)
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=1e-7)


def test_without_attributes_the_loss_is_constant_and_has_no_gradient():
    loss = ZeroShotPredictionLoss(8, 5)
    attributes = tf.zeros([10, 6])
    with tf.GradientTape() as tape:
        tape.watch(attributes)
        value = loss(attributes, LABELS)
    gradients = tape.gradient(value, [attributes, *loss.trainable_variables])
    np.testing.assert_allclose(value, 2 * np.log(8), rtol=1e-6)
    for gradient in gradients:
        np.testing.assert_array_equal(tf.convert_to_tensor(gradient), np.zeros(gradient.shape))


def test_a_batch_of_one_class_is_an_error_and_never_a_finite_number():
    loss = ZeroShotPredictionLoss(8, 5)
    attributes, labels = random_attributes(4), np.array([3, 3, 3, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least two classes"):
        loss(attributes, labels)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least two classes"):
        tf.function(loss)(attributes, labels)
    for reduction in ("sum_of_means", "mean"):
        loss = ZeroShotPredictionLoss(8, 5, reduction=reduction)
        assert np.isnan(tf.function(loss, jit_compile=True)(attributes, labels))


@pytest.mark.parametrize("label", [-1, 8])
def test_a_label_outside_the_classes_is_an_error_and_not_a_number_under_xla(label):
    loss, attributes = ZeroShotPredictionLoss(8, 5), random_attributes()
    labels = np.where(LABELS == 7, label, LABELS)
    for function in (loss, tf.function(loss)):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=rf"expected 0\.\.7\. Relabel.*{label}.*at position.*5"
        ):
            function(attributes, labels)
    assert np.isnan(tf.function(loss, jit_compile=True)(attributes, labels))


def test_labels_are_checked_as_those_of_other_losses():
    loss, attributes = ZeroShotPredictionLoss(8, 5), random_attributes()
    for labels in (LABELS.astype(np.float32), LABELS[:, None], LABELS.tolist()):
        assert loss(attributes, labels) == loss(attributes, LABELS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="class ids that are whole"):
        loss(attributes, LABELS + 0.5)
    with pytest.raises(InvalidInput, match=r"shape of labels: received \(10, 8\)"):
        loss(attributes, np.eye(8, dtype=int)[LABELS])


@pytest.mark.parametrize("reduction", ["sum_of_means", "mean"])
def test_sample_weights_are_factors_of_the_cross_entropies(reduction):
    loss, attributes = ZeroShotPredictionLoss(8, 5, reduction=reduction), random_attributes()
    weights = np.random.default_rng(0).uniform(0.0, 2.0, 10)
    assert loss(attributes, LABELS, sample_weight=np.ones(10)) == loss(attributes, LABELS)
    alone = [float(loss(attributes, LABELS, sample_weight=row)) for row in np.eye(10)]
    np.testing.assert_allclose(loss(attributes, LABELS, sample_weight=weights), np.dot(weights, alone), rtol=1e-5)
    np.testing.assert_allclose(sum(alone), loss(attributes, LABELS), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_functions_xla_half_precision_and_unknown_batches_agree_with_eager(dtype):
    loss = ZeroShotPredictionLoss(8, 5)
    attributes, labels = random_attributes().astype("float32"), LABELS.astype(dtype)
    expected = loss(attributes, labels)
    signature = [tf.TensorSpec([None, 6]), tf.TensorSpec([None], dtype)]
    np.testing.assert_allclose(tf.function(loss.call, signature)(attributes, labels), expected, rtol=1e-5)
    np.testing.assert_allclose(tf.function(loss, jit_compile=True)(attributes, labels), expected, rtol=1e-5)
    assert loss(tf.cast(attributes, tf.float16), labels).dtype == tf.float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 1}, "num_classes"),
        ({"embedding_dim": 0}, "embedding_dim"),
        ({"ridge": 0.0}, "ridge"),
        ({"logit_scale": -1.0}, "logit_scale"),
        ({"reduction": "sum"}, "sum_of_means, mean"),
        ({"halves": "random"}, "classes, even_odd"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        ZeroShotPredictionLoss(**{"num_classes": 8, "embedding_dim": 5, **arguments})
